/* Asking the control API, and saying what to do when it refuses.

   The API answers refusals as problems (RFC 9457): exact, but written for programs. A person at the
   console needs the next step. So every failure becomes a `Refused` with what happened in `message`
   and what to do in `advice`, and a session that ended is told to whoever listens.

   Nothing here retries: a change is sent once, when somebody asked for it. */

class Refused extends Error {
  constructor(status, message, advice, kind = "") {
    super(message);
    this.status = status;
    this.advice = advice;
    this.kind = kind;
  }
}

let ended = () => {};

/** Call `then` when the session has ended; one listener. */
export function whenEnded(then) {
  ended = then;
}

const wait = (seconds) => (seconds ? `Wait ${seconds} s and try again.` : "Wait a moment and try again.");

function advice(status, retryAfter) {
  if (status === 401) return "Log in again with a key that works.";
  if (status === 403) return "Your key may not do this. Ask an operator, or log in with another key.";
  if (status === 404) return "It may have been removed meanwhile. Go back to the list.";
  if (status === 409) return "Mend what it says, then try again.";
  if (status === 412) return "Somebody changed it while you looked. Look at the new values, then try again.";
  if (status === 413) return "Send less.";
  if (status === 422) return "Change what you entered.";
  if (status === 429 || status === 503) return wait(retryAfter);
  return "Try again. If it stays, the log of the console says more.";
}

async function refusal(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // not every proxy in between answers in JSON
  }
  const fields = (problem.errors || []).map((each) => `${each.pointer || ""} ${each.detail || ""}`.trim());
  const said = [problem.detail || problem.title || `The answer was ${response.status}.`, ...fields];
  return new Refused(
    response.status,
    said.join(" "),
    advice(response.status, response.headers.get("Retry-After")),
    problem.type || "",
  );
}

/** One request. Returns {data, etag}; raises Refused. */
export async function request(method, path, { body, headers = {}, quiet = false } = {}) {
  const sent = { Accept: "application/json", ...headers };
  if (method !== "GET") sent["X-Headrace"] = "1";
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch {
    throw new Refused(
      0,
      `Nothing answers at ${location.host}.`,
      "See that `headrace console` or `headrace up` still runs, then try again.",
    );
  }
  if (!response.ok) {
    const refused = await refusal(response);
    if (response.status === 401 && !quiet) ended();
    throw refused;
  }
  const data = response.status === 204 ? null : await response.json();
  return { data, etag: response.headers.get("ETag") };
}

const plain = (method) => async (path, body) => (await request(method, path, { body })).data;

export const get = plain("GET");
export const post = plain("POST");
export const remove = plain("DELETE");

/** Change only what is still as it was looked at. */
export const put = async (path, body, etag) =>
  (await request("PUT", path, { body, headers: etag ? { "If-Match": etag } : {} })).data;

/** A path from parts that may hold anything. */
export const path = (...parts) => `/v1/${parts.map(encodeURIComponent).join("/")}`;

/** All pages of a list, up to `most` items. */
export async function all(start, most = 5000) {
  const items = [];
  let cursor = null;
  do {
    const mark = start.includes("?") ? "&" : "?";
    const page = await get(cursor ? `${start}${mark}cursor=${encodeURIComponent(cursor)}` : start);
    items.push(...page.items);
    cursor = page.next;
  } while (cursor && items.length < most);
  return items;
}
