/* Slots and waves over the last minutes, one row a slot: who ran where, for how long, how it ended.

   Hundreds of blocks that move each second are too many elements, so they are drawn on a canvas,
   and a canvas can be neither read aloud nor walked through. So the blocks are laid out by a plain
   function first; drawing, the pointer and the arrow keys all use that layout, what is picked is
   told in words, and the page shows the same waves as a table.

   How a block ended is told by fill, hatch and mark, not by colour alone. */

import { timeOfDay, span, text } from "./format.js";
import { token } from "./charts.js";
import { html, plural, useEffect, useRef, useState, useTheme } from "./ui.js";

const ROW = 26;
const TOP = 22;
const LEFT = 132;
const OUTCOMES = { running: "--run", done: "--done", yielded: "--yield", failed: "--fail" };

/** Rows and blocks of what touches [from, until): pure. */
export function layout(waves, drivers, from, until) {
  const rows = [];
  const places = new Map();
  const add = (driver, slot) => {
    const key = `${driver} ${slot}`;
    if (!places.has(key)) places.set(key, rows.push({ driver, slot }) - 1);
    return places.get(key);
  };
  const seen = waves.filter((each) => each.started_at_s < until && (each.ended_at_s ?? until) > from);
  const most = new Map(drivers.map((each) => [each.driver, each.slots]));
  for (const wave of seen) {
    for (const bin of wave.bins) most.set(wave.driver, Math.max(most.get(wave.driver) || 0, bin.slot + 1));
  }
  for (const driver of [...most.keys()].sort()) {
    for (let slot = 0; slot < most.get(driver); slot += 1) add(driver, slot);
  }
  const blocks = seen.flatMap((wave) => wave.bins.map((bin) => ({
    wave, bin, row: places.get(`${wave.driver} ${bin.slot}`),
    from: wave.started_at_s, until: wave.ended_at_s ?? until,
  })));
  blocks.sort((a, b) => a.row - b.row || a.from - b.from);
  return { rows, blocks };
}

const named = (bin) => bin.tenants.slice(0, 3).join(", ")
  + (bin.tenants_total > 3 ? ` and ${bin.tenants_total - 3} more` : "");

/** A block in one sentence. */
export const inWords = ({ wave, bin, from, until }) =>
  `${bin.outcome}: ${wave.use_case}, ${named(bin)}; ${plural(bin.records, "record")} in ${text(span(until - from))}, `
  + `from ${timeOfDay(from)}, slot ${bin.slot} of ${wave.driver}`;

// -- drawing --------------------------------------------------------------------------------------

const patterns = new Map();

/** Lines at 45 degrees, once or crossed. */
function hatch(pen, ground, ink, crossed) {
  const key = `${ground} ${ink} ${crossed}`;
  if (!patterns.has(key)) {
    const tile = document.createElement("canvas");
    [tile.width, tile.height] = [16, 16];
    const brush = tile.getContext("2d");
    brush.fillStyle = ground;
    brush.fillRect(0, 0, 16, 16);
    brush.strokeStyle = ink;
    brush.lineWidth = 3;
    brush.beginPath();
    for (const at of [-16, 0, 16]) {
      brush.moveTo(at, 16);
      brush.lineTo(at + 16, 0);
      if (crossed) {
        brush.moveTo(at, 0);
        brush.lineTo(at + 16, 16);
      }
    }
    brush.stroke();
    const made = pen.createPattern(tile, "repeat");
    made.setTransform(new DOMMatrix().scale(0.5));
    patterns.set(key, made);
  }
  return patterns.get(key);
}

function fillOf(pen, outcome) {
  const ink = token(OUTCOMES[outcome] || "--ink-3");
  const pale = outcome === "done" ? ink : token(`${OUTCOMES[outcome] || "--run"}-pale`);
  if (outcome === "yielded") return hatch(pen, pale, ink, false);
  if (outcome === "failed") return hatch(pen, pale, ink, true);
  return outcome === "running" ? pale : ink;
}

function drawFrame(pen, box, view) {
  const { rows, from, until, wide, high } = view;
  pen.font = "11px Inter, system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.strokeStyle = token("--line");
  pen.fillStyle = token("--ink-3");
  const step = [5, 10, 15, 30, 60, 120, 300].find((each) => (until - from) / each <= wide / 110) || 600;
  pen.textAlign = "center";
  for (let at = Math.ceil(from / step) * step; at < until; at += step) {
    const x = Math.round(box(at)) + 0.5;
    pen.beginPath();
    pen.moveTo(x, TOP - 4);
    pen.lineTo(x, high);
    pen.stroke();
    if (x > LEFT + 24 && x < wide - 24) pen.fillText(timeOfDay(at), x, 8);
  }
  pen.textAlign = "left";
  let before = null;
  rows.forEach(({ driver, slot }, place) => {
    const y = TOP + place * ROW;
    pen.fillStyle = token(driver === before ? "--ink-3" : "--ink-2");
    if (driver !== before) {
      pen.fillText(driver.length > 13 ? `${driver.slice(0, 12)}…` : driver, 2, y + ROW / 2);
      pen.beginPath();
      pen.moveTo(0, y + 0.5);
      pen.lineTo(wide, y + 0.5);
      pen.stroke();
    }
    pen.textAlign = "right";
    pen.fillText(`slot ${slot}`, LEFT - 10, y + ROW / 2);
    pen.textAlign = "left";
    before = driver;
  });
}

function drawBlock(pen, box, block, picked) {
  const { outcome } = block.bin;
  const x = Math.max(LEFT, box(block.from));
  const wide = Math.max(2.5, box(block.until) - x - 1);
  const y = TOP + block.row * ROW + 3;
  const high = ROW - 6;
  pen.fillStyle = fillOf(pen, outcome);
  pen.beginPath();
  pen.roundRect(x, y, wide, high, Math.min(3, wide / 2));
  pen.fill();
  pen.strokeStyle = token(OUTCOMES[outcome] || "--ink-3");
  pen.setLineDash(outcome === "running" ? [3, 2] : []);
  pen.lineWidth = 1;
  pen.stroke();
  pen.setLineDash([]);
  if (picked) {
    for (const [colour, out, line] of [["--card", 1.5, 5], ["--ink", 2.5, 2]]) {
      pen.strokeStyle = token(colour);
      pen.lineWidth = line;
      pen.strokeRect(x - out, y - out, wide + 2 * out, high + 2 * out);
    }
    pen.lineWidth = 1;
  }
  const said = block.bin.tenants_total === 1 ? block.bin.tenants[0]
    : `${block.wave.use_case} · ${block.bin.tenants_total}`;
  const plain = outcome === "done" || outcome === "running";
  if (plain && wide > 34 && pen.measureText(said).width < wide - 10) {
    pen.fillStyle = token(outcome === "done" ? "--on-done" : "--ink");
    pen.fillText(said, x + 5, y + high / 2 + 0.5);
  }
}

function draw(canvas, view, picked) {
  const dots = devicePixelRatio || 1;
  const { wide, high } = view;
  if (canvas.width !== Math.round(wide * dots) || canvas.height !== Math.round(high * dots)) {
    [canvas.width, canvas.height] = [Math.round(wide * dots), Math.round(high * dots)];
    Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px` });
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, wide, high);
  const box = (at) => LEFT + ((at - view.from) / (view.until - view.from)) * (wide - LEFT);
  drawFrame(pen, box, view);
  for (const block of view.blocks) drawBlock(pen, box, block, false);
  if (picked) drawBlock(pen, box, picked, true);
}

// -- picking --------------------------------------------------------------------------------------

const same = (a, b) => a.wave.wave === b.wave.wave && a.bin.slot === b.bin.slot;

function hit(view, x, y) {
  const row = Math.floor((y - TOP) / ROW);
  const scale = (view.wide - LEFT) / (view.until - view.from);
  const at = view.from + (x - LEFT) / scale;
  const near = 3 / scale;
  return view.blocks.find((each) => each.row === row && at >= each.from - near && at <= each.until + near) || null;
}

/** The block that an arrow leads to. */
export function beside(blocks, picked, key) {
  if (!blocks.length) return null;
  const here = picked && blocks.find((each) => same(each, picked));
  if (!here) return blocks[blocks.length - 1];
  const row = blocks.filter((each) => each.row === here.row);
  const place = row.indexOf(here);
  if (key === "ArrowLeft") return row[Math.max(0, place - 1)];
  if (key === "ArrowRight") return row[Math.min(row.length - 1, place + 1)];
  const way = key === "ArrowDown" ? 1 : -1;
  const others = blocks.filter((each) => (each.row - here.row) * way > 0);
  if (!others.length) return here;
  const next = others.reduce((best, each) => (way * each.row < way * best ? each.row : best), others[0].row);
  const middle = (here.from + here.until) / 2;
  const away = (each) => Math.abs((each.from + each.until) / 2 - middle);
  return others.filter((each) => each.row === next).reduce((a, b) => (away(b) < away(a) ? b : a));
}

function Tip({ block, view }) {
  const x = LEFT + ((Math.min(block.until, view.until) - view.from) / (view.until - view.from)) * (view.wide - LEFT);
  const left = Math.max(LEFT, Math.min(x - 120, view.wide - 300));
  const { wave, bin } = block;
  const low = block.row >= view.rows.length - 4 && view.rows.length > 5;
  const style = low ? { left: `${left}px`, bottom: `${view.high - TOP - block.row * ROW}px` }
    : { left: `${left}px`, top: `${TOP + (block.row + 1) * ROW}px` };
  return html`<div class="tip" style=${style} aria-hidden="true"><b>${bin.outcome}
      </b> ${text(span(block.until - block.from))}
    <div>${wave.use_case}, ${plural(bin.records, "record")} of ${plural(bin.tenants_total, "tenant")}</div>
    <div class="tip-names">${named(bin)}</div>
    <div class="pale">${timeOfDay(block.from)}, wave ${wave.wave}</div>${wave.error && html`<div class="is-critical">
        ${wave.error}</div>`}</div>`;
}

export function Timeline({ waves, drivers, from, until }) {
  const canvas = useRef(null);
  const frame = useRef(null);
  const [wide, setWide] = useState(900);
  const [picked, pick] = useState(null);
  const theme = useTheme();
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWide(Math.max(320, Math.floor(entry.contentRect.width))));
    watch.observe(frame.current);
    return () => watch.disconnect();
  }, []);
  const { rows, blocks } = layout(waves, drivers, from, until);
  const view = { rows, blocks, from, until, wide, high: TOP + Math.max(1, rows.length) * ROW + 4 };
  const shown = picked && blocks.find((each) => same(each, picked));
  useEffect(() => draw(canvas.current, view, shown), [waves, from, until, wide, shown, theme, rows.length]);
  const onKey = (event) => {
    if (event.key === "Escape") pick(null);
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    pick(beside(blocks, shown, event.key));
  };
  const over = (event) => {
    const at = canvas.current.getBoundingClientRect();
    pick(hit(view, event.clientX - at.left, event.clientY - at.top));
  };
  return html`<div class="timeline" ref=${frame} tabindex="0" role="group" data-timeline
      aria-label=${`Timeline of ${plural(rows.length, "slot")}; arrow keys go from block to block`} onKeyDown=${onKey}
      onBlur=${() => pick(null)}>
    <canvas ref=${canvas} onPointerMove=${over} onPointerLeave=${() => pick(null)} aria-hidden="true"></canvas>
    ${shown && html`<${Tip} block=${shown} view=${view} />`}
    <span class="unseen" role="status">${shown ? inWords(shown) : ""}</span></div>`;
}

/** What the fills mean. */
export const TimelineKey = () => html`<ul class="timeline-key" aria-label="How a block ended">
  ${[["running", "runs now"], ["done", "done"], ["yielded", "yielded: gave back what was left"], ["failed", "failed"]]
    .map(([name, said]) => html`<li key=${name}><span class=${`swatch is-${name}`} aria-hidden="true"></span>${said}
        </li>`)}</ul>`;
