/* What a person can do to a stream, and what they are told before and after.

   A button that moves positions or passes over a record can not be taken back. So each asks first,
   in a dialog that says exactly what will happen: which lane, from which offset it goes on, where a
   record is kept, how many would be sent. What the API then says is shown, refusals with what to do.

   Whether it may be done is decided by the API alone. */

import { path, post, put, request } from "./api.js";
import { exact } from "./format.js";
import { Columns, Confirm, Loading, Problem, html, plural, useEffect, useState } from "./ui.js";

const stream = (of) => html`<b class="name">${of.tenant}/${of.use_case}</b>`;

/** The route that does it to one stream, or, where `use_case` is null, to the whole tenant. */
const route = (of, what) => (of.use_case ? path("streams", of.tenant, of.use_case, what)
  : path("tenants", of.tenant, what));

export function Suspend({ of, done, onClose }) {
  const act = async () => {
    await post(route(of, "suspend"));
    done();
  };
  return html`<${Confirm} title=${of.use_case ? "Suspend this stream?" : "Suspend this tenant?"} verb="Suspend"
      danger act=${act} onClose=${onClose}>
    <p>${of.use_case ? stream(of) : html`All streams of <b class="name">${of.tenant}
        </b>`} will be planned no more, from
      the next turn of the driver on.</p>
    <ul><li>A slice that runs now ends and commits.</li><li>Positions are kept; records wait in Kafka, as long as the
      topic keeps them.</li><li>It stays so through restarts, until somebody resumes it.</li></ul><//>`;
}

export function Resume({ of, me, done, onClose }) {
  const others = me.role === "tenant" && of.stopped_by.some((each) => each !== "tenant");
  const act = async () => {
    await post(route(of, "resume"));
    done();
  };
  return html`<${Confirm} title=${of.use_case ? "Resume this stream?" : "Resume this tenant?"} verb="Resume"
      ready=${!others} act=${act}
      onClose=${onClose}>
    <p>${of.use_case ? html`${stream(of)} goes on at its positions`
      : html`The streams of <b class="name">${of.tenant}
          </b> go on at their positions`}, within a turn of the driver.</p>
    <ul><li>Nothing is skipped. What waited is read in order.</li><li>${of.use_case
      ? "What failed in it is retried: each of its stopped lanes goes on at its record."
      : "A stream that was suspended by itself stays so, and a lane with an open failure waits for retry or skip."}
          </li>${of.reason && html`<li>It was suspended because: ${of.reason}</li>`}
      ${others && html`<li>You did not suspend it, or not alone: only an operator resumes it.</li>`}</ul><//>`;
}

/* What a pattern reads only the API knows: it says so with how many letters there are. */
const named = (topics, what) => topics ? html`<b class="name">${topics.join(", ") || "no topic yet"}</b>` : what;

const lane = (failure) => html`partition <b>${failure.partition ?? failure.lane}</b> of <b class="name">${failure.topic}</b>`;

/** What the API says of a failure that was decided about. */
const GoesOn = ({ of }) => html`The lane goes on${of.next_offset !== null
  && html` at offset <b class="num">${exact(of.next_offset)}</b>`}.${of.suspended
  && html` Its stream is suspended all the same (${of.suspended}): resume it too.`}`;

export function Retry({ failure, done, onClose }) {
  const from = failure.offset ?? failure.from_offset;
  const act = async () => {
    const decided = await post(path("failures", failure.id, "retry"));
    done();
    return html`<p>Failure ${failure.id} is closed. <${GoesOn} of=${decided} /></p>`;
  };
  return html`<${Confirm} title=${`Retry failure ${failure.id}?`} verb="Retry" act=${act} onClose=${onClose}>
    <p>${stream(failure)}, ${lane(failure)}, goes on at offset <b class="num">${exact(from)}
        </b>: the record that failed is
      handled again, after ${plural(failure.attempts, "attempt")} so far.</p>
    <ul><li>Mend its cause first: the use case, or what it depends on.</li><li>If it fails again, the lane stops here
      again, at the same failure.</li></ul><//>`;
}

export function Skip({ failure, done, onClose }) {
  const named = failure.offset !== null;
  const next = failure.goes_on_at;
  const [agreed, agree] = useState(named);
  const act = async () => {
    const decided = await post(path("failures", failure.id, "skip"), { whole_slice: !named });
    done();
    return html`<p><${GoesOn} of=${decided} />${named
      && html` The record is in <b class="name">${failure.dead_letters}</b>.`}</p>`;
  };
  return html`<${Confirm} title=${`Skip ${named ? "the record" : "the slice"} of failure ${failure.id}?`} verb="Skip"
      danger ready=${agreed} act=${act} onClose=${onClose}>
    ${named
      ? html`<p>${stream(failure)} passes over offset <b class="num">${exact(failure.offset)}
          </b> of ${lane(failure)}. The
        next one read is <b class="num">${exact(next)}</b>.</p>
        <ul><li>The record is first kept, whole, in <b class="name">${failure.dead_letters}</b>; Redrive sends it back
        later.</li><li>Records behind it are handled before it: the order of this lane has a gap here.</li></ul>`
      : html`<p>No single record is to blame. ${stream(failure)} passes over all <b class="num">
          ${exact(failure.records)}</b> offsets from
        <b class="num">${exact(failure.from_offset)}</b> up to <b class="num">${exact(next)}
            </b> of ${lane(failure)}.</p>
        <ul><li><b>They are kept nowhere but in Kafka</b>, as long as the topic keeps them.</li></ul>
        <label class="check"><input type="checkbox" checked=${agreed}
            onChange=${(event) => agree(event.target.checked)} />
        Pass over the whole slice</label>`}<//>`;
}

export function Redrive({ of, done, onClose }) {
  const [limit, setLimit] = useState("");
  const [found, setFound] = useState({ data: null, error: null });
  const where = path("streams", of.tenant, of.use_case, "redrive");
  const asked = (dry) => ({ ...(limit ? { limit: Number(limit) } : {}), dry_run: dry });
  useEffect(() => {
    let gone = false;
    const timer = setTimeout(async () => {
      try {
        const data = await post(where, asked(true));
        if (!gone) setFound({ data, error: null });
      } catch (error) {
        if (!gone) setFound({ data: null, error });
      }
    }, limit ? 300 : 0);
    return () => { gone = true; clearTimeout(timer); };
  }, [limit]);
  const act = async () => {
    const sent = await post(where, asked(false));
    done();
    return html`<p><b>${plural(sent.sent, "dead letter")}</b> sent back to ${named(sent.topics)}; ${sent.left} left for
      the next time.</p><${Refusals} of=${sent.refused} />`;
  };
  const there = found.data;
  return html`<${Confirm} title="Send dead letters back?" verb=${there ? `Send ${there.sent} back` : "Send back"}
      ready=${Boolean(there && there.sent)} act=${act} onClose=${onClose}>
    <p>Dead letters of ${stream(of)} go from ${named(there?.dead_letters, "where they are kept")} to the end of their own
      partition of ${named(there?.topics, "their topic")}, each once, and only this use case reads them.</p>
    ${found.error ? html`<${Problem} error=${found.error} />` : there
      ? html`<dl class="facts"><dt>would be sent</dt><dd class="num">${there.sent}</dd><dt>left for later</dt>
        <dd class="num">${there.left}</dd><dt>refused</dt><dd class="num">${there.refused.length}</dd></dl>
        <${Refusals} of=${there.refused} />`
      : html`<${Loading} what="how many there are" />`}
    <label class="field">The most to send <input type="number" name="limit" min="1" max="100000" step="1"
        value=${limit}
      placeholder="10,000" onInput=${(event) => setLimit(event.target.value)} /></label><//>`;
}

const Refusals = ({ of }) => of.length > 0 && html`<details class="refusals">
    <summary>Why ${plural(of.length, "letter")}
  stay${of.length === 1 ? "s" : ""}</summary><ul>${of.slice(0, 50).map((why) => html`<li key=${why}>${why}</li>`)}
      </ul></details>`;

const MOVE = [["partition", "num"], ["reads next", "num"], ["log ends at", "num"], ["move to"], ["what that does"]];

export function Seek({ of, lanes, done, onClose }) {
  const [targets, set] = useState(Object.fromEntries(lanes.map((each) => [each.lane, ""])));
  const [whole, setWhole] = useState("");
  const [forget, setForget] = useState(false);
  const target = (each) => BigInt(targets[each.lane]);
  const moves = (each) => /^[0-9]+$/.test(targets[each.lane]) && target(each) !== BigInt(each.next_offset);
  const moved = lanes.filter(moves);
  const where = path("streams", of.tenant, of.use_case, "positions");
  const offsets = Object.fromEntries(moved.map((each) => [each.lane, String(target(each))]));
  const to = whole.trim();
  const body = { ...(to ? { to } : { offsets }), ...(forget ? { forget_state: true } : {}) };
  const some = Boolean(to) || moved.length > 0;
  const wanted = JSON.stringify(body);
  const [found, setFound] = useState({ wanted: null, data: null, error: null });
  useEffect(() => {
    if (!some) return undefined;
    let gone = false;
    const timer = setTimeout(async () => {
      try {
        const data = await put(where, { ...body, dry_run: true });
        if (!gone) setFound({ wanted, data, error: null });
      } catch (error) {
        if (!gone) setFound({ wanted, data: null, error });
      }
    }, 300);
    return () => { gone = true; clearTimeout(timer); };
  }, [wanted]);
  const counted = some && found.wanted === wanted ? found : { data: null, error: null };
  const act = async () => {
    const { offsets: at } = await put(where, body);
    done();
    return html`<p>${plural(Object.keys(at).length, "lane")} moved; the driver goes on from there within a turn.</p>`;
  };
  const effect = (each) => (target(each) < BigInt(each.next_offset)
    ? html`<span class="is-warning">what is between is read again</span>`
    : html`<span class="is-critical">what is between is passed over, kept nowhere</span>`);
  return html`<${Confirm} title="Move positions?" danger
      verb=${to ? "Move the stream" : `Move ${plural(moved.length, "lane")}`}
      ready=${Boolean(counted.data)} act=${act} onClose=${onClose}>
    <p>The offset that ${stream(of)} reads next, by partition. Leave a lane empty to leave it where it is.</p>
    <div class="scroll" role="region" tabindex="0" aria-label="Lanes"><table class="plain"><${Columns} of=${MOVE} />
      <tbody>${lanes.map((each) => html`<tr key=${each.lane}><td class="is-num">${each.partition ?? each.lane}</td>
        <td class="is-num num">${exact(each.next_offset)}</td><td class="is-num num">${exact(each.end)}</td>
        <td><input type="text" inputmode="numeric" pattern="[0-9]*" disabled=${Boolean(to)}
            aria-label=${`Move partition ${each.partition ?? each.lane} to`}
          value=${targets[each.lane]}
              onInput=${(event) => set({ ...targets, [each.lane]: event.target.value })} /></td>
        <td>${!to && moved.includes(each) && effect(each)}</td></tr>`)}</tbody></table></div>
    <label class="field">Or the whole stream to<input type="text" value=${whole}
        onInput=${(event) => setWhole(event.target.value)} />
      <small>earliest, latest, a time such as 2026-05-17T10:05:00+00:00, or ${'{"acme.visits": {"0": 23}}'}; of several
        topics, ${'{"acme.clicks": null}'} gives up one that is gone.</small></label>
    <label class="check"><input type="checkbox" checked=${forget}
        onChange=${(event) => setForget(event.target.checked)} />
      Forget the state of keys: of a use case with state, what is moved begins without any</label>
    ${counted.error ? html`<${Problem} error=${counted.error} />` : counted.data
      ? html`<ul aria-label="Consequences">${counted.data.consequences.map((each) => html`<li key=${each}
          class="is-warning">${each}</li>`)}</ul>`
      : some && html`<${Loading} what="how much that is" />`}
    <ul><li>Read again means handled again: every effect is made again, under any guarantee.</li>
      <li>An open failure of a moved lane is over.</li></ul><//>`;
}

/** Weight and throttle of a tenant. */
export function Limits({ row, onClose }) {
  const { throttle } = row;
  const act = async (form) => {
    const number = (name) => (form.get(name) === "" ? null : Number(form.get(name)));
    const { etag } = await request("GET", path("tenants", row.name));
    await put(path("tenants", row.name), {
      weight: number("weight"),
      throttle: {
        records_per_s: number("records_per_s"),
        bytes_per_s: number("bytes_per_s"),
        burst_s: number("burst_s") ?? 1,
      },
    }, etag);
  };
  const field = (name, label, value, hint) => html`<label class="field">${label}
    <input type="number" name=${name} min="0" step="any" defaultValue=${value ?? ""} placeholder="no limit"
        required=${name === "weight"} />
    <small>${hint}</small></label>`;
  return html`<${Confirm} title=${`Limits of ${row.name}`} verb="Save" act=${act} onClose=${onClose}>
    <p>They hold from the next turn of the driver on, for all streams of this tenant together.</p>
    ${field("weight", "Weight", row.weight,
      "Its share of task-seconds against the others when there is not enough for all; 1 is usual.")}
    ${field("records_per_s", "Records a second, at most", throttle.records_per_s, "Empty: no limit.")}
    ${field("bytes_per_s", "Bytes a second, at most", throttle.bytes_per_s, "Empty: no limit.")}
    ${field("burst_s", "Burst, in seconds", throttle.burst_s,
      "How much of the limit may be taken at once after a quiet time.")}<//>`;
}
