// The live feed in the browser: one socket, the same messages by polling while there is none, and a store of sections.
// What the messages mean: docs/reference/deck-feed.md.

import { config } from "./config.js";
import { serverNow, setServerTime } from "./format.js";

const POLL_EVERY = 2000; // milliseconds, all of these
const POLL_TIMEOUT = 10000;
const OPEN_WITHIN = 2500; // polls begin when the socket is not open by then
const SILENT_AFTER = 12000; // the server says something every 5 s: a socket that is silent for so long is dead
const HIDDEN_FOR = 20000; // a tab that nobody looks at stops asking
const PAUSES = [500, 1000, 2000, 4000, 8000, 15000, 30000]; // before each attempt to open the socket again
const MOST_EVENTS = 50;
const FINAL = { 4401: "signed_out", 4403: "refused" };
const BUGS = [4400, 4413]; // our message was wrong: the socket would be closed again

const jittered = (pause) => pause * (0.75 + Math.random() / 2);

/** What is known of one topic. */
class Topic {
  constructor(name) {
    this.name = name;
    this.seq = null;
    this.at = null;
    this.sections = {};
  }

  /** The names of the sections that have changed, or null where the message does not follow what is known. */
  take(message) {
    if (message.type === "snapshot") {
      this.sections = message.sections;
    } else if (this.seq === null || message.base !== this.seq) {
      return null;
    } else if (message.type === "delta") {
      for (const [name, change] of Object.entries(message.sections)) {
        this.sections[name] = merged(this.sections[name], change);
      }
    } else {
      this.sections.events = withEvents(this.sections.events, message.events);
    }
    this.seq = message.seq;
    this.at = message.at;
    return message.type === "event" ? ["events"] : Object.keys(message.sections);
  }
}

function isKeyed(section) {
  return section !== null && typeof section === "object" && section.rows && !Array.isArray(section.rows);
}

/** A section after its change. Objects are made anew, so that a component sees by identity what has changed. */
function merged(old, change) {
  if (!isKeyed(change) || !isKeyed(old) || change.whole) return change;
  const rows = { ...old.rows, ...change.rows };
  for (const key of change.gone ?? []) delete rows[key];
  const { gone: _gone, ...rest } = change;
  return { ...old, ...rest, rows, order: change.order ?? old.order };
}

function withEvents(old, events) {
  const known = old?.rows ?? [];
  const ids = new Set(events.map((event) => event.id));
  const rows = [...[...events].reverse(), ...known.filter((event) => !ids.has(event.id))];
  return { ...old, rows: rows.slice(0, MOST_EVENTS) };
}

/** Keeps `topics` up to date as long as somebody looks. `status.mode` is connecting, live, polling, stale, paused,
    signed_out or refused; `status.at` is the database's time of the last message, in milliseconds. */
export class Feed {
  constructor({ socket, snapshot, topics }) {
    this.socketAddress = socket;
    this.snapshotAddress = snapshot;
    this.topics = new Map(topics.map((name) => [name, new Topic(name)]));
    this.status = { mode: "connecting", at: null, since: null, masked: false };
    this.listeners = new Map();
    this.statusListeners = new Set();
    this.socket = null;
    this.attempts = 0;
    this.heard = 0;
    this.timers = {};
    this.polling = false;
    this.isSuspended = false;
    this.isOver = false;
  }

  // -- for panels ------------------------------------------------------------------------------------------------------

  /** Call back with a section now, if it is there, and whenever it changes; gives the function that ends this. */
  on(section, callback, topic = this.topics.keys().next().value) {
    const key = `${topic}\n${section}`;
    if (!this.listeners.has(key)) this.listeners.set(key, new Set());
    this.listeners.get(key).add(callback);
    const known = this.topics.get(topic)?.sections[section];
    if (known !== undefined) callback(known);
    return () => this.listeners.get(key).delete(callback);
  }

  /** Call back with the status now and whenever it changes. */
  onStatus(callback) {
    this.statusListeners.add(callback);
    callback(this.status);
    return () => this.statusListeners.delete(callback);
  }

  get(section, topic = this.topics.keys().next().value) {
    return this.topics.get(topic)?.sections[section];
  }

  // -- life ------------------------------------------------------------------------------------------------------------

  start() {
    document.addEventListener("visibilitychange", () => this.#seen());
    window.addEventListener("pagehide", ({ persisted }) => persisted && this.#suspend()); // it may come back
    window.addEventListener("pageshow", () => this.#seen());
    window.addEventListener("online", () => this.#again());
    this.timers.watch = setInterval(() => this.#watch(), 1000);
    if (document.hidden) this.#suspend();
    else this.#connect();
    return this;
  }

  #seen() {
    clearTimeout(this.timers.hidden);
    if (document.hidden) {
      this.timers.hidden = setTimeout(() => this.#suspend(), HIDDEN_FOR);
    } else if (this.isSuspended && !this.isOver) {
      this.isSuspended = false;
      this.attempts = 0;
      this.#tell({ mode: "connecting" });
      this.#connect();
    }
  }

  #suspend() {
    if (this.isOver || this.isSuspended) return;
    this.isSuspended = true;
    this.#stopPolling();
    clearTimeout(this.timers.connect);
    clearTimeout(this.timers.open);
    this.#drop();
    this.#tell({ mode: "paused" });
  }

  #again() {
    if (this.isOver || this.isSuspended || this.socket) return;
    this.attempts = 0;
    this.#connect();
  }

  #end(mode) {
    this.isOver = true;
    this.#stopPolling();
    for (const timer of Object.values(this.timers)) clearTimeout(timer);
    this.#drop();
    this.#tell({ mode });
  }

  #watch() {
    if (this.socket?.readyState === WebSocket.OPEN && Date.now() - this.heard > SILENT_AFTER) {
      this.#drop();
      this.#lost();
    }
  }

  // -- the socket ------------------------------------------------------------------------------------------------------

  #connect() {
    clearTimeout(this.timers.connect);
    if (!this.socketAddress) {
      this.#poll(); // no ASGI server: polling is all there is
      return;
    }
    const address = new URL(this.socketAddress, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    this.socket = socket;
    this.heard = Date.now();
    this.timers.open = setTimeout(() => this.#poll(), OPEN_WITHIN);
    socket.addEventListener("open", () => {
      this.heard = Date.now();
      for (const topic of this.topics.values()) topic.seq = null;
      this.#send({ type: "subscribe", topics: [...this.topics.keys()] });
    });
    socket.addEventListener("message", ({ data }) => {
      if (socket !== this.socket) return;
      this.heard = Date.now();
      const message = JSON.parse(data);
      this.#take(message);
      if (message.frame !== undefined) this.#send({ type: "ack", frame: message.frame });
    });
    socket.addEventListener("close", ({ code }) => {
      if (socket !== this.socket) return;
      this.socket = null;
      if (FINAL[code]) this.#end(FINAL[code]);
      else this.#lost(BUGS.includes(code));
    });
  }

  #send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  #drop() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  #lost(forGood = false) {
    clearTimeout(this.timers.open);
    if (this.isOver || this.isSuspended) return;
    this.#poll();
    if (forGood) return;
    const pause = PAUSES[Math.min(this.attempts, PAUSES.length - 1)];
    this.attempts += 1;
    clearTimeout(this.timers.connect);
    this.timers.connect = setTimeout(() => this.#connect(), jittered(pause));
  }

  // -- polling ---------------------------------------------------------------------------------------------------------

  #poll() {
    if (this.polling || this.isOver || this.isSuspended) return;
    this.polling = true;
    this.#askOnce();
  }

  #stopPolling() {
    this.polling = false;
    clearTimeout(this.timers.poll);
  }

  async #askOnce() {
    const address = new URL(this.snapshotAddress, location.href);
    for (const name of this.topics.keys()) address.searchParams.append("topic", name);
    try {
      const answer = await fetch(address, {
        headers: { Accept: "application/json" },
        credentials: "same-origin",
        redirect: "error",
        signal: AbortSignal.timeout(POLL_TIMEOUT),
      });
      if (!this.polling) return;
      if (answer.status === 401) return this.#end("signed_out");
      if (answer.status === 403) return this.#end("refused");
      this.#take(await answer.json());
    } catch {
      if (!this.polling) return;
      this.#tell({ mode: "stale", since: this.status.since ?? this.status.at });
    }
    if (this.polling) this.timers.poll = setTimeout(() => this.#askOnce(), POLL_EVERY);
  }

  // -- messages --------------------------------------------------------------------------------------------------------

  #take(message) {
    switch (message.type) {
      case "batch":
        for (const part of message.messages) this.#take(part);
        break;
      case "hello":
        this.#hello(message);
        break;
      case "stale":
        if (message.since === null) this.#fresh(message.at);
        else this.#tell({ mode: "stale", since: message.since * 1000 });
        break;
      case "alive":
        this.#fresh(message.at);
        break;
      case "snapshot":
      case "delta":
      case "event":
        this.#state(message);
        break;
      case "error":
        console.warn("chokaq feed:", message.code, message.message);
    }
  }

  #hello(message) {
    if (message.mode === "live") {
      clearTimeout(this.timers.open);
      this.attempts = 0;
      this.#stopPolling();
    }
    config.permissions = message.permissions;
    this.#tell({ masked: message.masked, permissions: message.permissions.join(" ") });
    this.#fresh(message.at);
  }

  #state(message) {
    const topic = this.topics.get(message.topic);
    if (!topic) return;
    const changed = topic.take(message);
    if (changed === null) {
      this.#send({ type: "resync", topic: topic.name });
      return;
    }
    for (const name of changed) {
      for (const callback of this.listeners.get(`${topic.name}\n${name}`) ?? []) callback(topic.sections[name]);
    }
    this.#fresh(message.at);
  }

  #fresh(at) {
    if (at) setServerTime(at);
    const mode = this.polling ? "polling" : "live";
    this.#tell({ mode, at: at ? at * 1000 : serverNow(), since: null });
  }

  #tell(change) {
    this.status = { ...this.status, ...change };
    for (const callback of this.statusListeners) callback(this.status);
  }
}

let shared = null;

/** The feed of this page: its topics are in the page's configuration, which the server wrote. */
export function pageFeed() {
  shared ??= new Feed({ socket: config.socket, snapshot: config.urls.snapshot, topics: config.topics }).start();
  return shared;
}
