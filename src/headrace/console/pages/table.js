/* A table of any length that stays quick, calm and usable by keyboard.

   A thousand rows that change every second cost more than a frame if all of them are drawn, and a
   table that sorts itself anew under the pointer cannot be clicked. So only the rows in sight are
   drawn, and while the pointer or the focus is on a row the order is held; the values go on.

   A place in the table keeps its elements and shows another row when the order changes: to move or
   make elements costs several times as much as to change their text.

   The whole table is one stop of the Tab key; arrows or j and k move inside it, Enter opens. The
   true number of rows is told to readers of screens. Rows all have one height. */

import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

const ROW_PX = 36;
const SPARE = 6;

/** Only what changed is drawn again: rows are values that are replaced, never altered. */
class Row extends Component {
  shouldComponentUpdate(next) {
    const now = this.props;
    return next.row !== now.row || next.place !== now.place || next.current !== now.current
      || next.columns !== now.columns || next.stamp !== now.stamp;
  }

  render({ row, place, current, columns }) {
    return html`<tr aria-rowindex=${place + 2} data-place=${place} class=${place % 2 ? "is-odd" : ""}>
      ${columns.map((column) => html`<td key=${column.key} class=${column.num ? "is-num" : ""}>
        ${column.render(row, current)}</td>`)}
    </tr>`;
  }
}

// a collator made for each comparison would cost more than all drawing
const words = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  const noA = a === null || a === undefined;
  const noB = b === null || b === undefined;
  if (noA || noB) return noA && noB ? 0 : noA ? 1 : -1;
  return typeof a === "string" ? words.compare(a, b) : a - b;
}

/** Rows by a column; what has no value comes last either way. */
export function sorted(rows, column, descending, id) {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    const missing = x === null || x === undefined || y === null || y === undefined;
    const order = compare(x, y);
    return (missing ? order : sign * order) || compare(id(a), id(b));
  });
}

const held = (rows, places, id) =>
  [...rows].sort((a, b) => (places.get(id(a)) ?? Infinity) - (places.get(id(b)) ?? Infinity));

function useWindow(region, total) {
  const [seen, set] = useState({ top: 0, high: 900 });
  useEffect(() => {
    const box = region.current;
    const look = () => set((before) => {
      const top = Math.floor(box.scrollTop / ROW_PX);
      return before.top === top && before.high === box.clientHeight ? before
        : { top, high: box.clientHeight };
    });
    look();
    box.addEventListener("scroll", look, { passive: true });
    const watch = new ResizeObserver(look);
    watch.observe(box);
    return () => {
      box.removeEventListener("scroll", look);
      watch.disconnect();
    };
  }, []);
  const first = Math.max(0, Math.min(seen.top, total - 1) - SPARE);
  return [first, Math.min(total, seen.top + Math.ceil(seen.high / ROW_PX) + SPARE), seen.high];
}

function Head({ columns, sort, onSort }) {
  return html`<thead><tr aria-rowindex="1">${columns.map((column) => {
    const on = sort.key === column.key;
    const state = on ? (sort.descending ? "descending" : "ascending") : undefined;
    return html`<th key=${column.key} scope="col" class=${column.num ? "is-num" : ""} aria-sort=${state}
      title=${column.help}>${column.value
        ? html`<button onClick=${() => onSort(column)}><span>${column.title}</span><svg class=${`sort ${state || ""}`}
            viewBox="0 0 8 8" aria-hidden="true"><path d="M4 1l3 5H1z" /></svg></button>`
        : column.title}</th>`;
  })}</tr></thead>`;
}

/** Columns: {key, title, width, render(row, current), value?(row), num?, help?, first?}.
 *
 * The first column should render a link with `tabindex=${current ? 0 : -1}` and `data-go`. `stamp`
 * is anything beside the rows that they show. */
export function Table({ label, columns, rows, id, start, stamp, tall = true }) {
  const region = useRef(null);
  const [sort, setSort] = useState(start);
  const [hold, setHold] = useState(null);
  const [place, setPlace] = useState(0);
  const moved = useRef(false);
  const column = columns.find((each) => each.key === sort.key);
  const shown = hold ? held(rows, hold, id) : sorted(rows, column, sort.descending, id);
  const [first, until, high] = useWindow(region, shown.length);
  const current = Math.min(place, Math.max(0, shown.length - 1));

  const onSort = (picked) => {
    setHold(null);
    setSort({
      key: picked.key,
      descending: sort.key === picked.key ? !sort.descending : Boolean(picked.num),
    });
  };
  const grip = () => hold || setHold(new Map(shown.map((row, index) => [id(row), index])));
  const release = () => {
    const body = region.current && region.current.querySelector("tbody");
    if (body && !body.contains(document.activeElement) && !body.matches(":hover")) setHold(null);
  };
  const go = (to) => {
    const next = Math.max(0, Math.min(shown.length - 1, to));
    const box = region.current;
    const top = next * ROW_PX;
    if (top < box.scrollTop) box.scrollTop = top;
    const room = box.clientHeight - 2 * ROW_PX;
    if (top > box.scrollTop + room) box.scrollTop = top - room;
    moved.current = true;
    setPlace(next);
  };
  useLayoutEffect(() => {
    if (!moved.current) return;
    const link = region.current.querySelector(`tr[data-place="${current}"] [data-go]`);
    if (link) {
      moved.current = false;
      link.focus({ preventScroll: true });
    }
  });
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const page = Math.max(1, Math.floor(high / ROW_PX) - 2);
    const on = event.target.closest && event.target.closest("tbody");
    const from = on ? current : -1;
    const to = {
      ArrowDown: from + 1, j: from + 1, ArrowUp: current - 1, k: current - 1,
      PageDown: current + page, PageUp: current - page, Home: 0, End: shown.length - 1,
    }[event.key];
    if (to === undefined || !shown.length) return;
    event.preventDefault();
    go(to);
  };

  return html`<div class=${`table-box ${tall ? "is-tall" : ""}`} ref=${region} role="region" aria-label=${label}
      tabindex="0" onKeyDown=${onKey} data-table>
    <table aria-rowcount=${shown.length + 1}>
      <colgroup>${columns.map((each) => html`<col key=${each.key} style=${{ width: each.width }} />`)}</colgroup>
      <${Head} columns=${columns} sort=${sort} onSort=${onSort} />
      <tbody onPointerEnter=${grip} onPointerLeave=${() => setTimeout(release)} onFocusIn=${grip}
          onFocusOut=${() => setTimeout(release)}>
        ${first > 0 && html`<tr key="above" aria-hidden="true"><td colspan=${columns.length} class="is-gap"
          style=${{ height: `${first * ROW_PX}px` }}></td></tr>`}
        ${shown.slice(first, until).map((row, index) => html`<${Row} key=${first + index} row=${row}
            columns=${columns}
          place=${first + index} current=${first + index === current} stamp=${stamp} />`)}
        ${until < shown.length && html`<tr key="below" aria-hidden="true"><td colspan=${columns.length} class="is-gap"
          style=${{ height: `${(shown.length - until) * ROW_PX}px` }}></td></tr>`}
      </tbody>
    </table>
    ${hold && html`<div class="held" aria-hidden="true">order held while you point</div>`}
  </div>`;
}
