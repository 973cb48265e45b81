/* The console as a whole: who is logged in, which page is shown, and the keys that work everywhere.

   An address names a page (`#/tenants/acme`), so that it can be kept and sent. A link may carry a
   key (`#key=hr_…`): it is handed in for a cookie at once and leaves the address bar and the
   history before anything else happens.

   What a page shows is in the file of that page; what somebody may do is decided by the API, and
   here only what would be refused is not offered. */

import { get, post, remove, whenEnded } from "./api.js";
import { connect, forget, live } from "./live.js";
import { html, render, Dialog, Empty, Loading, State, useEffect, useLive, useRef, useState, useTheme } from "./ui.js";
import { Login } from "./page_login.js";
import { Tenants } from "./page_tenants.js";
import { Tenant } from "./page_tenant.js";
import { Waves } from "./page_waves.js";
import { UseCases } from "./page_use_cases.js";
import { Alerts } from "./page_alerts.js";
import { Keys } from "./page_keys.js";
import { Audit } from "./page_audit.js";

const PAGES = [
  { name: "tenants", title: "Tenants", roles: ["operator", "viewer"], show: Tenants, key: "t" },
  { name: "waves", title: "Waves", roles: ["operator", "viewer"], show: Waves, key: "w" },
  { name: "use-cases", title: "Use cases", roles: ["operator", "viewer"], show: UseCases, key: "u" },
  { name: "alerts", title: "Alerts", roles: ["operator", "viewer"], show: Alerts, key: "a" },
  { name: "keys", title: "Keys", roles: ["operator"], show: Keys, key: "k" },
  { name: "audit", title: "Audit", roles: ["operator", "viewer"], show: Audit, key: "l" },
];

/** Where the address leads: {page, name}. */
function routeOf(hash, me) {
  const [page, ...rest] = hash.replace(/^#\/?/, "").split("?")[0].split("/");
  let name = "";
  try {
    name = decodeURIComponent(rest.join("/"));
  } catch {
    // a mistyped address names no tenant
  }
  if (me.role === "tenant") return { page: "tenants", name: me.tenant };
  return { page: page || "tenants", name };
}

function useRoute(me) {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return routeOf(hash, me);
}

// -- the frame ------------------------------------------------------------------------------------

const SAID = {
  connecting: ["waiting", "connecting"],
  live: ["active", "live"],
  lost: ["retrying", "reconnecting"],
};

function LiveMark() {
  useLive("status");
  const [kind, said] = SAID[live.status];
  return html`<span class=${`live is-${live.status}`} role="status" title=${live.status === "lost"
    ? "What you see is as it was when the connection was lost" : "Changes arrive by themselves"}>
    <${State} of=${kind} /><span class="live-word">${said}</span></span>`;
}

function ThemeSwitch() {
  useTheme();
  const on = document.documentElement.dataset.theme === "dark";
  const flip = () => {
    const theme = on ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("headrace-theme", theme);
    } catch {
      // not kept, but changed
    }
    dispatchEvent(new Event("themechange"));
  };
  return html`<button class="icon-button" onClick=${flip} aria-label=${on ? "Light colours" : "Dark colours"}
    title=${on ? "Light colours" : "Dark colours"}><svg viewBox="0 0 16 16" aria-hidden="true">${on
    ? html`<circle cx="8" cy="8"
        r="3" /><path d="M8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.4 1.4M11.6 11.6L13 13M13 3l-1.4 1.4M4.4 11.6L3 13" />`
    : html`<path d="M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z" />`}</svg></button>`;
}

function AlertCount() {
  useLive("alerts");
  const number = live.alerts ? live.alerts.length : 0;
  if (!number) return null;
  const critical = live.alerts.some((each) => each.severity === "critical");
  return html`<span class=${`count ${critical ? "is-critical" : ""}`}>${number}<span class="unseen"> open</span>
      </span>`;
}

function Header({ me, route, leave, onHelp }) {
  const shown = PAGES.filter((each) => each.roles.includes(me.role));
  return html`<header class="top">
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); focusMain(); }}>Skip to content</a>
    <a class="brand" href="#/" aria-label="Headrace, start"><svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="M2 7h12M2 12h8.5M2 17h15" /><path class="gate" d="M19.5 3v6M19.5 13v8" /></svg>Headrace</a>
    ${shown.length > 0 && html`<nav aria-label="Pages">${shown.map((each) => html`<a key=${each.name}
        href=${`#/${each.name}`}
      aria-current=${route.page === each.name ? "page" : undefined}>${each.title}
      ${each.name === "alerts" && html`<${AlertCount} />`}</a>`)}</nav>`}
    <div class="top-end"><${LiveMark} />
      <button class="icon-button" onClick=${onHelp} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">
        <svg viewBox="0 0 16 16" aria-hidden="true"><rect x="1" y="4" width="14" height="9" rx="1.5" /><path
        d="M4 7h.01M7 7h.01M10 7h.01M12.5 7h.01M5 10.2h6" /></svg></button>
      <${ThemeSwitch} />
      <span class="who" title=${me.name}>${me.role}${me.tenant ? ` of ${me.tenant}` : ""}</span>
      <button class="button is-quiet" onClick=${leave}>Log out</button></div>
  </header>`;
}

const SHORTCUTS = [
  ["/", "search"], ["j  k", "next and previous row; arrows do the same"], ["Enter", "open the row"],
  ["g t", "tenants"], ["g w", "waves"], ["g u", "use cases"], ["g a", "alerts"], ["g k", "keys"],
  ["g l", "audit"], ["Esc", "close a dialog, or leave the search"], ["?", "this list"],
];

function Help({ onClose, on, setOn }) {
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <dl class="shortcuts">${SHORTCUTS.map(([keys, does]) => html`<dt key=${keys}>${keys.split(/ +/).map((key) =>
      html`<kbd>${key}</kbd>`)}</dt><dd>${does}</dd>`)}</dl>
    <label class="check"><input type="checkbox" checked=${on} onChange=${(event) => setOn(event.target.checked)} />
      Single-key shortcuts are on</label>
    <div class="dialog-foot"><button class="button is-main" onClick=${onClose}>Close</button></div><//>`;
}

const focusMain = () => document.querySelector("main h1")?.focus();

function useShortcuts(me, on, help) {
  const gone = useRef(-Infinity);
  useEffect(() => {
    if (!on) return undefined;
    const typed = (event) => {
      const { target, key } = event;
      const typing = target.matches?.("input:not([type=radio], [type=checkbox]), select, textarea");
      if (event.ctrlKey || event.metaKey || event.altKey || typing || document.querySelector("dialog[open]")) return;
      const led = performance.now() - gone.current < 1200;
      gone.current = key === "g" ? performance.now() : -Infinity;
      if (led && key !== "g") {
        const page = PAGES.find((each) => each.key === key && each.roles.includes(me.role));
        if (page) location.hash = `#/${page.name}`;
      } else if (key === "/") {
        const search = document.querySelector("[data-search]");
        if (search) { event.preventDefault(); search.focus(); search.select(); }
      } else if (key === "?") {
        help();
      } else if ((key === "j" || key === "k") && !target.closest("[data-table], [data-timeline]")) {
        const link = document.querySelector('[data-table] [data-go][tabindex="0"]');
        if (link) link.focus();
      }
    };
    addEventListener("keydown", typed);
    return () => removeEventListener("keydown", typed);
  }, [on, me.role]);
}

function kept(name, fallback) {
  try {
    return localStorage.getItem(name) ?? fallback;
  } catch {
    return fallback;
  }
}

function Inside({ me, leave }) {
  const route = useRoute(me);
  const [help, setHelp] = useState(false);
  const [shortcuts, setShortcuts] = useState(kept("headrace-shortcuts", "on") === "on");
  const drawn = useRef(false);
  useShortcuts(me, shortcuts, () => setHelp(true));
  const keep = (on) => {
    setShortcuts(on);
    try {
      localStorage.setItem("headrace-shortcuts", on ? "on" : "off");
    } catch {
      // not kept, but changed
    }
  };
  const page = PAGES.find((each) => each.name === route.page);
  const own = route.page === "tenants" && route.name;
  useEffect(() => {
    document.title = `${own ? route.name : page ? page.title : "Not found"} · Headrace`;
    if (drawn.current) focusMain();
    drawn.current = true;
  }, [route.page, route.name]);
  let shown;
  if (!page) shown = html`<h1 tabindex="-1">Not found</h1><${Empty} title="There is no such page"><p>
    <a href="#/tenants">Go to the tenants</a></p><//>`;
  else if (own) shown = html`<${Tenant} key=${route.name} name=${route.name} me=${me} />`;
  else if (!page.roles.includes(me.role)) shown = html`<h1 tabindex="-1">${page.title}</h1><${Empty}
    title=${`A ${me.role}'s key does not open this page`}><p>Log in with an operator's key to see it.</p><//>`;
  else shown = html`<${page.show} me=${me} />`;
  return html`<${Header} me=${me} route=${route} leave=${leave} onHelp=${() => setHelp(true)} />
    <main id="main" class=${`page-${route.page}${own ? " is-one" : ""}`}>${shown}</main>
    ${help && html`<${Help} on=${shortcuts} setOn=${keep} onClose=${() => setHelp(false)} />`}`;
}

// -- coming and going -----------------------------------------------------------------------------

/** Hand in the key of the address, if there is one; it leaves the address first. */
async function keyOfAddress() {
  const found = /^#key=([^&]+)/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", `${location.pathname}#/`);
  await post("/v1/session", { key: decodeURIComponent(found[1]) });
}

function App() {
  const [state, set] = useState({ me: null, error: null, known: false });
  const enter = async () => {
    try {
      const me = await get("/v1/me");
      forget();
      set({ me, error: null, known: true });
      connect(still);
    } catch (error) {
      set({ me: null, error: error.status === 401 ? null : error, known: true });
    }
  };
  const still = async () => {
    try {
      await get("/v1/me");
      return true;
    } catch (error) {
      return error.status !== 401;
    }
  };
  useEffect(() => {
    whenEnded(() => {
      forget();
      set({ me: null, error: null, known: true });
    });
    keyOfAddress().then(enter, (error) => set({ me: null, error, known: true }));
  }, []);
  const leave = async () => {
    try {
      await remove("/v1/session");
    } finally {
      forget();
      await enter();
    }
  };
  if (!state.known) return html`<main><${Loading} what="the console" /></main>`;
  if (!state.me) return html`<${Login} error=${state.error} enter=${enter} />`;
  return html`<${Inside} me=${state.me} leave=${leave} />`;
}

const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
