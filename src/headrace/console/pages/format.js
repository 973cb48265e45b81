/* Numbers and times as a person compares them.

   A column of numbers is compared by its length and its right edge, so each number comes apart into
   a value and a unit, with few and stable digits. What was not measured is a dash, never a zero.
   Nothing here touches the page. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const stamp = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("sv", { timeStyle: "medium" });

export const ABSENT = "–";

/** Three digits that count: 4.25, 42.5, 425. */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.95) return whole.format(value);
  return size >= 9.995 ? tenths.format(value) : hundredths.format(value);
}

/** A count as [value, unit]: exact up to 99,999, then in k, M and G. */
export function count(value) {
  if (value === null || value === undefined) return [ABSENT, ""];
  if (Math.abs(value) < 100000) return [whole.format(value), ""];
  if (Math.abs(value) < 999500) return [digits(value / 1e3), "k"];
  return Math.abs(value) < 999.5e6 ? [digits(value / 1e6), "M"] : [digits(value / 1e9), "G"];
}

/** Something per second as [value, unit]. */
export function rate(value) {
  if (value === null || value === undefined) return [ABSENT, ""];
  if (value === 0) return ["0", "/s"];
  if (Math.abs(value) < 0.005) return ["<0.01", "/s"];
  if (Math.abs(value) < 9995) return [digits(value), "/s"];
  return Math.abs(value) < 999.5e3 ? [digits(value / 1e3), "k/s"] : [digits(value / 1e6), "M/s"];
}

/** A span of seconds as [value, unit]. */
export function span(value) {
  if (value === null || value === undefined) return [ABSENT, ""];
  if (value === 0) return ["0", "s"];
  if (value < 0.0005) return ["<1", "ms"];
  if (value < 0.9995) return [whole.format(value * 1000), "ms"];
  if (value < 119.5) return [digits(value), "s"];
  if (value < 7200) return [tenths.format(value / 60), "min"];
  return value < 172800 ? [tenths.format(value / 3600), "h"] : [tenths.format(value / 86400), "d"];
}

/** Bytes a second, or bytes, as [value, unit]. */
export function bytes(value, per = "") {
  if (value === null || value === undefined) return [ABSENT, ""];
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && place < units.length - 1) {
    rest /= 1000;
    place += 1;
  }
  return [place ? digits(rest) : whole.format(rest), units[place] + per];
}

/** A share of one as [value, unit]. */
export function percent(value) {
  if (value === null || value === undefined) return [ABSENT, ""];
  if (value > 0 && value < 0.001) return ["<0.1", "%"];
  return [tenths.format(value * 100), "%"];
}

/** [value, unit] as one text, for titles and sentences. */
export function text([value, unit]) {
  if (!unit) return value;
  return unit.startsWith("/") || unit === "%" ? `${value}${unit}` : `${value} ${unit}`;
}

/** How long ago, or how far ahead, in one word or two. */
export function ago(atS, nowS) {
  const past = nowS - atS;
  const size = Math.abs(past);
  if (size < 2) return "just now";
  let said;
  if (size < 60) said = `${Math.floor(size)} s`;
  else if (size < 3600) said = `${Math.floor(size / 60)} min`;
  else if (size < 86400) said = `${Math.floor(size / 3600)} h ${Math.floor((size % 3600) / 60)} min`;
  else said = `${Math.floor(size / 86400)} d`;
  return past >= 0 ? `${said} ago` : `in ${said}`;
}

/** Date and time where the reader lives. */
export const moment = (atS) => stamp.format(new Date(atS * 1000));

/** Time of day where the reader lives. */
export const timeOfDay = (atS) => clock.format(new Date(atS * 1000));

/** "1 lane", "4 lanes". */
export const plural = (number, one, many = `${one}s`) =>
  `${whole.format(number)} ${number === 1 ? one : many}`;

/** Whole number with its thousands, exact however large: places in a log come as their digits. */
export const exact = (value) =>
  value === null || value === undefined ? ABSENT
    : whole.format(typeof value === "string" ? BigInt(value) : value);
