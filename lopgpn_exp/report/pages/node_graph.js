"use strict";
// Draws the graph of a run in two panels that share one view: the place, the scale, the node pointed at.
(() => {
  const root = document.currentScript.parentElement;
  const data = JSON.parse(root.querySelector(".data").textContent);
  const decode = (text, type) => new type(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  const positions = decode(data.positions, Uint16Array), edges = decode(data.edges, Uint16Array);
  const kind = decode(data.kind, Uint8Array);
  const label = decode(data.label, Int16Array), predicted = decode(data.predicted, Int16Array);
  const count = kind.length;
  const TEST = 1, TRAIN = 2, OOD = 4, WRONG = 8;
  const tip = root.querySelector(".tip");
  const view = {zoom: 1, x: 0, y: 0};
  let hovered = -1, clicked = -1;

  const measures = {};
  for (const [key, {name, values}] of Object.entries(data.measures)) {
    const numbers = decode(values, Float32Array);
    const order = Array.from(numbers.keys()).sort((a, b) => numbers[a] - numbers[b] || a - b);
    const rank = new Float32Array(count);
    for (let i = 0, j = 0; i < count; i = j) {  // equal values have the same colour
      while (j < count && numbers[order[j]] === numbers[order[i]]) j++;
      for (let k = i; k < j; k++) rank[order[k]] = (i + j - 1) / 2 / Math.max(count - 1, 1);
    }
    measures[key] = {name, numbers, order, rank};
  }

  const stops = [[0x44, 0x77, 0xAA], [0xB9, 0xB9, 0xB9], [0xCC, 0x33, 0x11]];
  const palette = Array.from({length: 64}, (_, i) => {
    const at = i / 63 * 2, low = Math.min(Math.floor(at), 1);
    return `rgb(${stops[low].map((c, k) => Math.round(c + (at - low) * (stops[low + 1][k] - c)))})`;
  });

  let right = 1, bottom = 1;  // the picture need not be a square
  for (let i = 0; i < count; i++) {
    right = Math.max(right, positions[2 * i]);
    bottom = Math.max(bottom, positions[2 * i + 1]);
  }
  const margin = 12;
  const unit = panel => (panel.side - 2 * margin) / Math.max(right, bottom) * view.zoom;
  const at = (panel, node) => {
    const u = unit(panel), middle = panel.side / 2;
    return [middle + (positions[2 * node] - right / 2) * u + view.x * panel.side,
            middle + (positions[2 * node + 1] - bottom / 2) * u + view.y * panel.side];
  };

  function mark(pen, node, x, y, size) {
    pen.beginPath();
    if (kind[node] & OOD) {
      pen.moveTo(x, y - 1.5 * size); pen.lineTo(x + 1.4 * size, y + size); pen.lineTo(x - 1.4 * size, y + size);
      pen.closePath();
    } else if (kind[node] & TRAIN) {
      pen.rect(x - size, y - size, 2 * size, 2 * size);
    } else {
      pen.arc(x, y, kind[node] & TEST ? size : 0.7 * size, 0, 7);
    }
  }

  function draw(panel) {  // everything that does not follow the pointer, kept as a picture
    const side = panel.canvas.clientWidth, dots = window.devicePixelRatio || 1;
    panel.side = side;
    for (const canvas of [panel.canvas, panel.picture]) canvas.width = canvas.height = Math.round(side * dots);
    const pen = panel.picture.getContext("2d"), text = getComputedStyle(root).color;
    pen.scale(dots, dots);
    pen.strokeStyle = text; pen.lineWidth = 0.5;
    pen.globalAlpha = Math.min(0.3, 0.1 + 1500 / (edges.length + 1));
    pen.beginPath();
    for (let e = 0; e < edges.length; e += 2) {
      pen.moveTo(...at(panel, edges[e])); pen.lineTo(...at(panel, edges[e + 1]));
    }
    pen.stroke();
    pen.globalAlpha = 1;
    const {order, rank} = measures[panel.select.value];
    const size = Math.max(1.6, Math.min(5, side / 4.2 / Math.sqrt(count))) * Math.sqrt(view.zoom);
    panel.size = size;
    for (const node of order) {  // the most uncertain on top
      const [x, y] = at(panel, node);
      mark(pen, node, x, y, size);
      pen.fillStyle = palette[Math.round(63 * rank[node])];
      pen.fill();
      if (kind[node] & WRONG) { pen.strokeStyle = text; pen.lineWidth = Math.max(0.9, size / 3); pen.stroke(); }
    }
    point(panel);
  }

  function point(panel) {  // the picture, and what is pointed at or clicked
    const pen = panel.canvas.getContext("2d"), dots = window.devicePixelRatio || 1;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, panel.canvas.width, panel.canvas.height);
    if (clicked >= 0) pen.globalAlpha = 0.25;
    pen.drawImage(panel.picture, 0, 0);
    pen.globalAlpha = 1;
    pen.scale(dots, dots);
    const text = getComputedStyle(root).color, {rank} = measures[panel.select.value];
    const strong = (node, size) => {
      mark(pen, node, ...at(panel, node), size);
      pen.fillStyle = palette[Math.round(63 * rank[node])]; pen.fill();
      pen.strokeStyle = text; pen.lineWidth = kind[node] & WRONG ? 2.4 : 1; pen.stroke();
    };
    if (clicked >= 0) {
      const neighbours = [];
      pen.strokeStyle = text; pen.lineWidth = 1; pen.beginPath();
      for (let e = 0; e < edges.length; e += 2) {
        if (edges[e] !== clicked && edges[e + 1] !== clicked) continue;
        pen.moveTo(...at(panel, edges[e])); pen.lineTo(...at(panel, edges[e + 1]));
        neighbours.push(edges[e] === clicked ? edges[e + 1] : edges[e]);
      }
      pen.stroke();
      neighbours.forEach(node => strong(node, panel.size + 1));
      strong(clicked, panel.size + 3);
    }
    if (hovered >= 0) strong(hovered, panel.size + 2);
  }

  const plain = value => value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5);
  const short = value => plain(value) ? value.toFixed(4) : value.toExponential(3);
  const describe = node => {
    const k = kind[node], part = k & TEST ? "test" : k & TRAIN ? "training" : "other";
    const words = [part, k & OOD ? "out-of-distribution" : "", k & WRONG ? "wrong" : ""].filter(word => word);
    const named = k => data.classes[k] ?? k;
    const known = label[node] < 0 ? "unknown" : named(label[node]);
    const lines = [`node ${data.ids[node] ?? node}: ${words.join(", ")}`, `class ${known}, predicted ${named(predicted[node])}`];
    return [...lines, ...Object.values(measures).map(m => `${m.name} ${short(m.numbers[node])}`)].join("\n");
  };

  function nearest(panel, event) {
    let best = -1, least = Math.max(8, panel.size + 2) ** 2;
    for (let node = 0; node < count; node++) {
      const [x, y] = at(panel, node), d = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (d < least) { least = d; best = node; }
    }
    return best;
  }

  const panels = Array.from(root.querySelectorAll("canvas"), canvas => (
    {canvas, picture: document.createElement("canvas"), select: canvas.parentElement.querySelector("select")}));
  const all = action => panels.forEach(action);
  let held = null, moved = false;
  for (const panel of panels) {
    const {canvas, select} = panel;
    select.addEventListener("change", () => draw(panel));
    canvas.addEventListener("pointermove", event => {
      if (held) {
        const [dx, dy] = [event.offsetX - held[0], event.offsetY - held[1]];
        if (!moved && Math.hypot(dx, dy) < 4) return;
        moved = true;
        view.x += dx / panel.side; view.y += dy / panel.side;
        held = [event.offsetX, event.offsetY];
        all(draw);
        return;
      }
      const found = nearest(panel, event);
      if (found !== hovered) { hovered = found; all(point); }
      tip.style.display = found < 0 ? "none" : "block";
      if (found < 0) return;
      tip.textContent = describe(found);
      const place = canvas.getBoundingClientRect(), frame = root.getBoundingClientRect();
      const x = place.left - frame.left + event.offsetX, y = place.top - frame.top + event.offsetY;
      tip.style.left = `${Math.min(x + 14, frame.width - tip.offsetWidth)}px`;
      tip.style.top = `${y + 14}px`;
    });
    canvas.addEventListener("pointerdown", event => {
      held = [event.offsetX, event.offsetY]; moved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", event => {
      held = null;
      if (!moved) { clicked = nearest(panel, event); all(point); }
    });
    canvas.addEventListener("pointercancel", () => { held = null; });
    canvas.addEventListener("pointerleave", () => { hovered = -1; tip.style.display = "none"; all(point); });
    canvas.addEventListener("dblclick", event => {  // twice as close, around the pointer
      const [x, y] = [event.offsetX / panel.side - 0.5, event.offsetY / panel.side - 0.5];
      view.x = 2 * view.x - x; view.y = 2 * view.y - y; view.zoom *= 2;
      all(draw);
    });
  }
  root.querySelector("button").addEventListener("click", () => {
    Object.assign(view, {zoom: 1, x: 0, y: 0}); clicked = -1;
    all(draw);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all(draw));
  const watch = new ResizeObserver(() => all(panel => panel.canvas.clientWidth !== panel.side && draw(panel)));
  all(panel => watch.observe(panel.canvas));
})();
