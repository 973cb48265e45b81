"""A certificate of a server, as files."""

from headrace.doors.serving import Tls


def tls_files(authority, folder, *names):
    """What an authority issued for these names."""
    issued = authority.issue_cert(*names)
    files = Tls(folder / "certificate.pem", folder / "key.pem")
    issued.private_key_pem.write_to_path(files.key_file)
    for pem in issued.cert_chain_pems:
        pem.write_to_path(files.certificate_file, append=True)
    return files
