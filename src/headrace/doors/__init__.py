"""What every HTTP door needs: who calls, how much may come in, how a refusal is said, serving.

There are two doors, the ingest gateway and the control API, and both are open to strangers. What
keeps them safe is here once. What they are for is in `gateway` and `console`.
"""
