/* The rows of the run: read as binary columns, kept fresh by what is new since the last sequence number.
   ask.load() starts; ask.data = {n, seq, names, col: {name: typed array}}; ask.onchange(call) tells of every change. */
(function () {
  "use strict";
  const ask = window.ask;
  const TYPES = { i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };
  const POLL_MS = 2000;
  const listeners = [];
  const ids = new Map();
  let idsKnown = 0;
  let store = {};
  ask.data = { n: 0, seq: 0, names: {}, col: {} };
  ask.FLAG = { accepted: 1, seed: 2, duplicate: 4, rejected: 8, best: 16, finalOk: 32, refuted: 64, sweep: 128 };
  ask.NO_CODE = 255;

  /** {header, columns} of the bytes that data/columns sends. Ids, 8 bytes a row, stay bytes. */
  function decode(buffer) {
    const bytes = new Uint8Array(buffer);
    const end = bytes.indexOf(10);
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
    let at = Math.ceil((end + 1) / 8) * 8;
    const columns = {};
    for (const [name, type] of header.columns) {
      const width = Number(type.slice(-1));
      const length = header.rows * width;
      columns[name] = width === 8 && type[0] === "u" ? bytes.subarray(at, at + length) : new TYPES[type](buffer, at, header.rows);
      at += Math.ceil(length / 8) * 8;
    }
    return { header, columns };
  }

  function stride(name) {
    return name === "id" ? 8 : 1;
  }

  /** Room for n rows; what was there stays. Twice as much as is needed, so that growing costs little. */
  function reserve(name, like, n) {
    const width = stride(name);
    const old = store[name];
    if (old && old.length >= n * width) return;
    const wider = new like.constructor(Math.max(1024, n * 2) * width);
    if (old) wider.set(old);
    store[name] = wider;
  }

  /** The row of a step's number, or where it would come, as -1 - row. Rows lie in the order of their numbers. */
  ask.rowOfStep = function (number) {
    const numbers = ask.data.col.number || [];
    let low = 0;
    let high = ask.data.n - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (numbers[middle] === number) return middle;
      if (numbers[middle] < number) low = middle + 1;
      else high = middle - 1;
    }
    return -1 - low;
  };

  /** Takes rows in: all of them, or new and changed ones. Returns the first row that isn't as it was, or -1 where all is. */
  function merge(decoded) {
    const { header, columns } = decoded;
    const data = ask.data;
    const whole = data.n === 0 || header.rows === header.total;
    if (whole) {
      store = {};
      ids.clear();
      idsKnown = 0;
      data.n = 0;
    }
    const numbers = columns.number;
    const places = new Int32Array(header.rows);
    let n = data.n;
    let first = n;
    for (let row = 0; row < header.rows; row++) {
      const known = whole ? -1 : ask.rowOfStep(numbers[row]);
      places[row] = known >= 0 ? known : n++;
      if (places[row] < first) first = places[row];
    }
    for (const [name, values] of Object.entries(columns)) {
      const width = stride(name);
      reserve(name, values, n);
      if (whole) store[name].set(values);
      else for (let row = 0; row < header.rows; row++) for (let k = 0; k < width; k++) store[name][places[row] * width + k] = values[row * width + k];
      data.col[name] = store[name].subarray(0, n * width);
    }
    const lost = !whole && (header.total < n || header.seq < data.seq);
    Object.assign(data, { n, seq: header.seq, names: header.names || data.names, lost });
    Object.assign(window.evolveState, { rows: n, lastSeq: data.seq });
    return header.rows ? first : -1;
  }

  /** The first 16 digits of a row's candidate; empty where the answer made none. */
  ask.idOf = function (row) {
    const bytes = ask.data.col.id;
    let text = "";
    for (let k = row * 8; k < row * 8 + 8; k++) text += (bytes[k] < 16 ? "0" : "") + bytes[k].toString(16);
    return text === "0000000000000000" ? "" : text;
  };

  /** The first row of the candidate whose id begins so, or -1. */
  ask.rowOfId = function (text) {
    const wanted = text.trim().toLowerCase().slice(0, 16);
    if (!/^[0-9a-f]+$/.test(wanted)) return -1;
    for (; idsKnown < ask.data.n; idsKnown++) {
      const id = ask.idOf(idsKnown);
      if (id && !ids.has(id)) ids.set(id, idsKnown);
    }
    if (ids.has(wanted)) return ids.get(wanted);
    for (const [id, row] of ids) if (id.startsWith(wanted)) return row;
    return -1;
  };

  ask.verdictOf = (row) => {
    const code = ask.data.col.verdict[row];
    return code === ask.NO_CODE ? "" : (ask.data.names.verdicts || ask.verdicts)[code] || "";
  };
  ask.nameOf = (list, code) => ((ask.data.names[list] || [])[code] === undefined ? "" : ask.data.names[list][code]);

  /** The bank's name of the question on the way to a row; empty where none was put. */
  ask.entryOf = (row) => ask.nameOf("questions", ask.data.col.question[row]);

  /** Rows of the candidates that beat all before them, in their order: what the running best is drawn through. */
  ask.bestRows = function () {
    const { flags, geomean, low, verdict } = ask.data.col;
    const ok = (ask.data.names.verdicts || ask.verdicts).indexOf("OK");
    const found = [];
    let best = -Infinity;
    for (let row = 0; row < ask.data.n; row++) {
      const value = low[row] > 0 ? low[row] : geomean[row];
      if (verdict[row] !== ok || !(value > best) || flags[row] & ask.FLAG.refuted) continue;
      best = value;
      found.push(row);
    }
    return found;
  };

  ask.onchange = (call) => listeners.push(call);
  function tell(first) {
    listeners.forEach((call) => call(first));
  }

  function get(path, type, done, failed) {
    const request = new XMLHttpRequest();
    request.open("GET", ask.root + path);
    request.responseType = type;
    request.onload = () => (request.status === 200 ? done(request.response) : failed(request.status));
    request.onerror = () => failed(0);
    request.send();
  }

  function fromBase64(text) {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
    return bytes.buffer;
  }

  /** Calls back with the facts of data/NAME: from the server, or from the report's own files; null where there are none. */
  ask.json = function (name, call) {
    const own = ask.report();
    if (own) call(own[name] === undefined ? null : own[name]);
    else get("data/" + name, "json", call, () => call(null));
  };

  let busy = false;
  let wanted = 0;
  let withRows = true;
  function refresh() {
    if (busy || wanted === ask.data.seq) return;
    if (!withRows) {
      const first = ask.data.seq === 0;
      window.evolveState.lastSeq = ask.data.seq = wanted;
      badge("live");
      return first || tell(-1);
    }
    busy = true;
    const began = performance.now();
    get("data/columns?since=" + (ask.data.lost ? 0 : ask.data.seq), "arraybuffer", (buffer) => {
      busy = false;
      const first = merge(decode(buffer));
      if (first >= 0) {
        tell(first);
        requestAnimationFrame(() => setTimeout(() => (window.evolveState.delta_ms = performance.now() - began)));
      }
      badge("live");
      if (ask.data.lost || wanted > ask.data.seq) refresh();
    }, () => {
      busy = false;
      badge("lost");
    });
  }

  const WORDS = { live: "up to date", lost: "connection lost, trying again" };
  function badge(state) {
    const node = document.querySelector(".badge[data-live]");
    if (!node || node.dataset.live === state) return;
    node.dataset.live = state;
    node.textContent = WORDS[state];
  }

  let stream = null;
  let timer = 0;
  function listen() {
    if (stream || timer) return;
    if (!window.EventSource) return poll();
    stream = new EventSource(ask.root + "data/events");
    stream.onmessage = (message) => {
      wanted = JSON.parse(message.data).seq;
      refresh();
    };
    stream.onerror = () => {
      badge("lost");
      if (stream && stream.readyState === EventSource.CLOSED) {
        stream = null;
        poll();
      }
    };
  }
  function poll() {
    wanted = 0;
    timer = setInterval(refresh, POLL_MS);
  }
  function hush() {
    if (stream) stream.close();
    clearInterval(timer);
    stream = null;
    timer = 0;
    wanted = 0;
  }

  function start(call) {
    get("data/columns", "arraybuffer", (buffer) => {
      merge(decode(buffer));
      call();
      badge("live");
      listen();
    }, () => {
      badge("lost");
      setTimeout(() => start(call), POLL_MS);
    });
  }

  /** Reads all rows, calls back once they are there, then keeps them fresh while the page is seen. Without `rows` it calls back
      at once and only tells when something was stored. */
  ask.load = function (call, rows) {
    const own = ask.report();
    if (own) {
      if (own.columns && rows) merge(decode(fromBase64(own.columns)));
      return call();
    }
    withRows = rows;
    if (rows) start(call);
    else {
      call();
      listen();
    }
    document.addEventListener("visibilitychange", () => {
      hush();
      if (document.hidden || !ask.data.seq) return;
      if (withRows) refresh();
      listen();
    });
    window.addEventListener("pagehide", hush);
  };
})();
