/* The parts that every page is made of.

   A state must be told to somebody who sees no colours and to somebody who sees nothing, so each
   has a shape and a word. Times are read as "12 s ago" and hold their exact moment; numbers have
   their unit beside them, paler. Dialogs are the browser's own, which keep the focus and close
   with Esc.

   What is true of one page alone is in the file of that page. */

import { Component, h } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import { ago, count, moment, percent, plural, rate, span, text } from "./format.js";
import { listen } from "./live.js";

export { Component, h, render } from "./vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";

const parse = htm.bind(h);
const spaced = new WeakMap();

/** htm drops a line's end beside text, where HTML has a space: put that space back. */
function withSpaces(strings) {
  if (!spaced.has(strings)) {
    spaced.set(strings, strings.map((each) => each
      .replace(/([^>\s])\s*\n\s*/g, "$1 ").replace(/(^|>)\s*\n\s*(?=[^<\s])/g, "$1 ")));
  }
  return spaced.get(strings);
}

/** Markup as a tagged template. */
export const html = (strings, ...values) => parse(withSpaces(strings), ...values);

/** Draw again when one of these topics of `live` changed. */
export function useLive(...topics) {
  const [, next] = useState(0);
  // an effect that waits for the paint would miss what comes between drawing and listening
  useLayoutEffect(() => listen(topics, () => next((n) => n + 1)), topics);
}

/** Draw again in other colours when the theme changes; a number that changes with it. */
export function useTheme() {
  const [number, set] = useState(0);
  useEffect(() => {
    const next = () => set((n) => n + 1);
    addEventListener("themechange", next);
    return () => removeEventListener("themechange", next);
  }, []);
  return number;
}

const clocks = new Set();
setInterval(() => clocks.forEach((each) => each()), 1000);

/** The time in seconds; draws again each second. */
export function useNow() {
  const [now, set] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const tick = () => set(Date.now() / 1000);
    clocks.add(tick);
    return () => clocks.delete(tick);
  }, []);
  return now;
}

/** What `load` gives: {data, error, again}; asked for again each `everyS` while the page is seen. */
export function useLoaded(load, keys, everyS = 0) {
  const [state, set] = useState({ data: null, error: null });
  const asked = useRef(0);
  const again = async () => {
    const number = (asked.current += 1);
    try {
      const data = await load();
      if (number === asked.current) set({ data, error: null });
    } catch (error) {
      if (number === asked.current) set((before) => ({ data: before.data, error }));
    }
  };
  useEffect(() => {
    set({ data: null, error: null });
    again();
    if (!everyS) return () => { asked.current += 1; };
    const timer = setInterval(() => document.hidden || again(), everyS * 1000);
    return () => {
      clearInterval(timer);
      asked.current += 1;
    };
  }, keys);
  return { ...state, again };
}

// -- states ---------------------------------------------------------------------------------------

const SHAPES = {
  active: html`<circle cx="6" cy="6" r="4.5" fill="currentColor" />`,
  throttled: html`<path d="M1.5 2h9L7.3 6l3.2 4h-9L4.7 6z" fill="currentColor" />`,
  retrying: html`<path d="M10 6A4 4 0 1 1 8.6 3M8.9 .8v2.6H6.3" fill="none" stroke="currentColor"
    stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />`,
  waiting: html`<circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.6"
    stroke-dasharray="2.4 1.8" />`,
  suspended: html`<path d="M2.5 1.5h2.6v9H2.5zM6.9 1.5h2.6v9H6.9z" fill="currentColor" />`,
  partly: html`<path d="M2.5 1.5h2.6v9H2.5z" fill="currentColor" /><path d="M7.3 2h1.9v8H7.3z"
    fill="none" stroke="currentColor" />`,
  removed: html`<path d="M2.5 2.5l7 7M9.5 2.5l-7 7" stroke="currentColor" stroke-width="1.8"
    stroke-linecap="round" />`,
  unknown: html`<path d="M2.5 6h7" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" />`,
  critical: html`<path d="M3.7.7h4.6l3 3v4.6l-3 3H3.7l-3-3V3.7z" fill="currentColor" /><path
    d="M6 3v3.6M6 8.7v.1" stroke="var(--card)" stroke-width="1.6" stroke-linecap="round" />`,
  warning: html`<path d="M6 .8l5.6 10.2H.4z" fill="currentColor" /><path d="M6 4.4v3M6 9.2v.1"
    stroke="var(--card)" stroke-width="1.4" stroke-linecap="round" />`,
};

export const Shape = ({ of }) => html`<svg class="shape" viewBox="0 0 12 12" aria-hidden="true">
  ${SHAPES[of] || SHAPES.unknown}</svg>`;

/** The shape and colour for a state as the API words it. */
export function kindOf(state) {
  if (!state) return "unknown";
  if (/^suspended \d/.test(state)) return "partly";
  return SHAPES[state] ? state : "unknown";
}

export const State = ({ of, title }) => html`<span class=${`state is-${kindOf(of)}`} title=${title}>
  <${Shape} of=${kindOf(of)} />${of || "no driver"}</span>`;

export const Severity = ({ of }) => html`<span class=${`state is-${of}`}><${Shape} of=${of} />${of}</span>`;

// -- numbers and times ----------------------------------------------------------------------------

/** A value with its unit: `of` is a pair as format.js makes them. */
export const Num = ({ of: [value, unit], title }) => html`<span class="num" title=${title}>${value}${
  unit ? html`<span class="unit">${unit}</span>` : ""}</span>`;

export const Count = ({ of }) => html`<${Num} of=${count(of)}
    title=${of >= 1e5 ? of.toLocaleString("en") : undefined} />`;
/** A lag as it is known: counted, guessed, or not at all. */
export const Lag = ({ of }) => (of.lag_is === "unknown" ? html`<span class="pale">unknown</span>`
  : html`${of.lag_is === "about" && "about "}<${Count} of=${of.lag_records} />`);
export const Rate = ({ of }) => html`<${Num} of=${rate(of)} />`;
export const Span = ({ of }) => html`<${Num} of=${span(of)} />`;

export function When({ at }) {
  const now = useNow();
  if (at === null || at === undefined) return html`<span class="pale">never</span>`;
  return html`<time dateTime=${new Date(at * 1000).toISOString()} title=${moment(at)}>${ago(at, now)}</time>`;
}

/** A share as a number beside a bar, which is full at `most`. */
export function Share({ of, most = 1 }) {
  const wide = Math.max(0, Math.min(1, (of || 0) / most)) * 100;
  return html`<span class="share"><svg viewBox="0 0 40 6" preserveAspectRatio="none" aria-hidden="true">
    <rect class="share-all" width="40" height="6" rx="1" /><rect class="share-part" width=${wide * 0.4}
    height="6" rx="1" /></svg><${Num} of=${percent(of)} /></span>`;
}

/** A line of the last values, the newest at the right; None is a gap. */
export function Spark({ values, label, wide = 92, high = 22 }) {
  if (!values || values.length < 2) return html`<span class="spark-none" aria-hidden="true"></span>`;
  const most = Math.max(...values.map((each) => each || 0), 1e-9);
  const step = (wide - 2) / (values.length - 1);
  let line = "";
  let pen = "M";
  values.forEach((value, place) => {
    if (value === null || value === undefined) {
      pen = "M";
      return;
    }
    line += `${pen}${(1 + place * step).toFixed(1)} ${(high - 2 - (value / most) * (high - 4)).toFixed(1)}`;
    pen = "L";
  });
  return html`<svg class="spark" viewBox=${`0 0 ${wide} ${high}`} width=${wide} height=${high}
    role="img" aria-label=${label}><path class="spark-base" d=${`M1 ${high - 1.5}H${wide - 1}`} />
    <path class="spark-line" d=${line} /></svg>`;
}

/** A figure that is read from afar. */
export const Tile = ({ name, children, note, spark, alarm }) => html`
  <div class=${`tile ${alarm ? "is-alarm" : ""}`}>
    <div class="tile-name">${name}</div>
    <div class="tile-value">${children}</div>
    <div class="tile-note">${note}</div>
    ${spark || ""}
  </div>`;

// -- saying something -----------------------------------------------------------------------------

export const Loading = ({ what }) => html`<p class="blank" role="status"><span class="blank-mark is-loading"
  aria-hidden="true"></span>Loading ${what}…</p>`;

export const Empty = ({ title, children }) => html`<div class="blank"><svg class="blank-art" viewBox="0 0 64 24"
  aria-hidden="true"><path d="M2 6h34M2 12h26M2 18h44" /><path class="gate" d="M52 2v7M52 15v7" /></svg>
  <h2>${title}</h2><div>${children}</div></div>`;

/** What went wrong and what to do about it. */
export function Problem({ error, again }) {
  if (!error) return null;
  return html`<div class="problem" role="alert"><${Shape} of="critical" /><div>
    <p><b>${error.message}</b></p><p>${error.advice || "Try again."}</p></div>
    ${again && html`<button class="button" onClick=${again}>Try again</button>`}</div>`;
}

/** One list in its four states: loading, refused, empty, there. */
export function Listed({ loaded, what, empty, children }) {
  if (loaded.error && !loaded.data) return html`<${Problem} error=${loaded.error} again=${loaded.again} />`;
  if (!loaded.data) return html`<${Loading} what=${what} />`;
  if (!loaded.data.length) return empty;
  return html`<${Problem} error=${loaded.error} again=${loaded.again} />${children}`;
}

/** Headings of a plain table: [words, "num" for numbers, "unseen" for what eyes need not read]. */
export const Columns = ({ of }) => html`<thead><tr>${of.map(([words, kind]) => html`<th key=${words} scope="col"
    class=${kind === "num" ? "is-num" : ""}>${kind === "unseen" ? html`<span class="unseen">${words}</span>` : words}
        </th>`)}</tr></thead>`;

// -- dialogs --------------------------------------------------------------------------------------

export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before && before.isConnected && before.focus();
  }, []);
  const outside = (event) => event.target === box.current && onClose();
  return html`<dialog class="dialog" ref=${box} onClose=${onClose} onMouseDown=${outside}
      aria-labelledby="dialog-title">
    <div class="dialog-body"><h2 id="dialog-title">${title}</h2>${children}</div></dialog>`;
}

/** Ask before something is done, do it, and say what came of it.
 *
 * `act` is what is done; what it returns is shown, or the dialog closes if that is nothing. */
export function Confirm({ title, verb, danger, ready = true, act, onClose, children }) {
  const [state, set] = useState({ busy: false, error: null, said: null });
  const go = async (event) => {
    event.preventDefault();
    set({ busy: true, error: null, said: null });
    try {
      const said = await act(new FormData(event.target));
      if (said) set({ busy: false, error: null, said });
      else onClose();
    } catch (error) {
      set({ busy: false, error, said: null });
    }
  };
  if (state.said) {
    return html`<${Dialog} title=${title} onClose=${onClose}><div role="status" class="said">${state.said}</div>
      <div class="dialog-foot"><button class="button is-main" autofocus onClick=${onClose}>Close</button></div><//>`;
  }
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${go}>
    ${children}
    <${Problem} error=${state.error} />
    <div class="dialog-foot">
      <button type="button" class="button" onClick=${onClose} autofocus=${danger}>Cancel</button>
      <button class=${`button ${danger ? "is-danger" : "is-main"}`} disabled=${state.busy || !ready}>
        ${state.busy ? "Working…" : verb}</button>
    </div></form><//>`;
}

/** A choice of few, as a group of radio buttons that looks like one switch. */
export const Choice = ({ name, label, options, value, onChange }) => html`
  <fieldset class="choice"><legend class="unseen">${label}</legend>
    ${options.map(([key, shown]) => html`<label key=${key} class=${key === value ? "is-on" : ""}>
      <input type="radio" class="unseen" name=${name} value=${key} checked=${key === value}
        onChange=${() => onChange(key)} />${shown}</label>`)}
  </fieldset>`;

export { plural, text };
