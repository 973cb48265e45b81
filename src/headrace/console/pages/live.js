/* What is going on now, kept in one place for all pages.

   The API sends whole lists first and then what changed, by server-sent events. Thirty components
   drawing at each event would make the page stutter, so events only change the values here, and
   those who look are told once a frame, by topic.

   It also remembers the last quarter of an hour of the summary and of each use case, since the API
   keeps no history of those: the charts of slots and pace begin when the console is opened. */

const TRAIL_S = 900;
const WAVES_S = 720;

export const live = {
  /** connecting, live, lost (it tries again by itself), or closed */
  status: "connecting",
  changedMs: 0,
  tenants: new Map(),
  tenantsKnown: false,
  summary: null,
  waves: new Map(),
  wavesKnown: false,
  useCases: new Map(),
  useCasesKnown: false,
  alerts: null,
  /** summaries of the last quarter of an hour, oldest first */
  trail: [],
  /** use case -> [{at_s, records_per_s, pace_per_s}], oldest first */
  paces: new Map(),
};

const listeners = new Map();
const dirty = new Set();
let framed = false;
let source = null;
let again = 0;
let failed = 0;

function flush() {
  framed = false;
  const topics = [...dirty];
  dirty.clear();
  const told = new Set();
  for (const topic of topics) {
    for (const each of listeners.get(topic) || []) {
      if (!told.has(each)) {
        told.add(each);
        each();
      }
    }
  }
}

function changed(topic) {
  dirty.add(topic);
  if (!framed) {
    framed = true;
    requestAnimationFrame(flush);
  }
}

/** Call `then` at most once a frame when one of the topics changed; returns how to stop it. */
export function listen(topics, then) {
  for (const topic of topics) {
    if (!listeners.has(topic)) listeners.set(topic, new Set());
    listeners.get(topic).add(then);
  }
  return () => {
    for (const topic of topics) listeners.get(topic).delete(then);
  };
}

function say(status) {
  if (live.status !== status) {
    live.status = status;
    live.changedMs = Date.now();
    changed("status");
  }
}

function onTenants({ whole, items, gone }) {
  if (whole) live.tenants = new Map();
  for (const row of items) live.tenants.set(row.name, row);
  for (const name of gone || []) live.tenants.delete(name);
  live.tenantsKnown = true;
  changed("tenants");
}

function onSummary(summary) {
  live.summary = summary;
  const last = live.trail.at(-1);
  if (!last || summary.at_s > last.at_s) live.trail.push(summary);
  while (live.trail.length && live.trail[0].at_s < summary.at_s - TRAIL_S) live.trail.shift();
  changed("summary");
}

/** Those that ended stay for as long as the timeline can show, also when their driver forgets them;
 * one that is gone while it ran has no end that anybody knows. */
function onWaves({ whole, items, gone }) {
  if (whole) live.waves = new Map();
  for (const wave of items) live.waves.set(wave.wave, wave);
  const oldest = Date.now() / 1000 - WAVES_S;
  for (const name of gone || []) {
    if (live.waves.has(name) && live.waves.get(name).ended_at_s === null) live.waves.delete(name);
  }
  for (const [key, wave] of live.waves) {
    if (wave.ended_at_s !== null && wave.ended_at_s < oldest) live.waves.delete(key);
  }
  live.wavesKnown = true;
  changed("waves");
}

function onUseCases({ whole, items, gone }) {
  const atS = Date.now() / 1000;
  if (whole) live.useCases = new Map();
  for (const name of gone || []) live.useCases.delete(name);
  for (const each of items) {
    live.useCases.set(each.use_case, each);
    if (!each.figures) continue;
    if (!live.paces.has(each.use_case)) live.paces.set(each.use_case, []);
    const trail = live.paces.get(each.use_case);
    const { records_per_s, pace_per_s } = each.figures;
    trail.push({ at_s: atS, records_per_s, pace_per_s });
    while (trail.length && trail[0].at_s < atS - TRAIL_S) trail.shift();
  }
  live.useCasesKnown = true;
  changed("use-cases");
}

function onAlerts({ items }) {
  live.alerts = items;
  changed("alerts");
}

const KINDS = {
  tenants: onTenants,
  drivers: onSummary,
  waves: onWaves,
  "use-cases": onUseCases,
  alerts: onAlerts,
};

/** Begin to listen; `refused` is called when the stream is refused, to find out why. */
export function connect(refused) {
  disconnect();
  say("connecting");
  source = new EventSource("/v1/live");
  source.onopen = () => {
    failed = 0;
    say("live");
  };
  source.onerror = () => {
    say("lost");
    if (source && source.readyState === EventSource.CLOSED) {
      failed += 1;
      again = setTimeout(() => refused().then((go) => go && connect(refused)),
        Math.min(1000 * 2 ** failed, 15000));
    }
  };
  for (const [kind, take] of Object.entries(KINDS)) {
    source.addEventListener(kind, (event) => {
      say("live");
      take(JSON.parse(event.data));
    });
  }
}

/** Stop listening and forget what was seen: the next one to log in may see less. */
export function disconnect() {
  clearTimeout(again);
  if (source) source.close();
  source = null;
}

export function forget() {
  disconnect();
  Object.assign(live, {
    status: "connecting", tenants: new Map(), tenantsKnown: false, summary: null,
    waves: new Map(), wavesKnown: false, useCases: new Map(), useCasesKnown: false,
    alerts: null, trail: [], paces: new Map(),
  });
}
