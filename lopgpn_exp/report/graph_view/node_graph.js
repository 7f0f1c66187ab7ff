"use strict";
// Draws the graph of a run in two panels that share position, zoom and the highlighted nodes.
(() => {
  const root = document.currentScript.parentElement;
  const data = JSON.parse(root.querySelector(".data").textContent);
  const decode = (text, type) => new type(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  const positions = decode(data.positions, Uint16Array), edges = decode(data.edges, Uint16Array);
  const kind = decode(data.kind, Uint8Array);
  const label = decode(data.label, Int16Array), predicted = decode(data.predicted, Int16Array);
  const count = kind.length;
  const TEST = 1, TRAIN = 2, OOD = 4, WRONG = 8;  // bits of `kind`
  const tip = root.querySelector(".tip");
  const view = {zoom: 1, x: 0, y: 0};
  let hovered = -1, clicked = -1;

  const measures = {};
  for (const [key, {name, values}] of Object.entries(data.measures)) {
    const numbers = decode(values, Float32Array);
    const order = Array.from(numbers.keys()).sort((a, b) => numbers[a] - numbers[b] || a - b);
    const rank = new Float32Array(count);
    for (let i = 0, j = 0; i < count; i = j) {  // equal values get the same colour
      while (j < count && numbers[order[j]] === numbers[order[i]]) j++;
      for (let k = i; k < j; k++) rank[order[k]] = (i + j - 1) / 2 / Math.max(count - 1, 1);
    }
    measures[key] = {name, numbers, order, rank};
  }

  const stops = [[0x44, 0x77, 0xAA], [0xB9, 0xB9, 0xB9], [0xCC, 0x33, 0x11]];
  const palette = Array.from({length: 64}, (_, i) => {
    const step = i / 63 * 2, low = Math.min(Math.floor(step), 1);
    return `rgb(${stops[low].map((c, k) => Math.round(c + (step - low) * (stops[low + 1][k] - c)))})`;
  });

  let right = 1, bottom = 1;  // the layout need not be square
  for (let i = 0; i < count; i++) {
    right = Math.max(right, positions[2 * i]);
    bottom = Math.max(bottom, positions[2 * i + 1]);
  }
  const margin = 12;
  const scale = panel => (panel.width - 2 * margin) / Math.max(right, bottom) * view.zoom;
  const toPixels = (panel, node) => {
    const s = scale(panel), middle = panel.width / 2;
    return [middle + (positions[2 * node] - right / 2) * s + view.x * panel.width,
            middle + (positions[2 * node + 1] - bottom / 2) * s + view.y * panel.width];
  };

  function outline(pen, node, x, y, size) {
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

  function draw(panel) {  // draws what does not follow the pointer into a buffer, then shows it
    const width = panel.canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    panel.width = width;
    for (const canvas of [panel.canvas, panel.buffer]) canvas.width = canvas.height = Math.round(width * ratio);
    const pen = panel.buffer.getContext("2d"), color = getComputedStyle(root).color;
    pen.scale(ratio, ratio);
    pen.strokeStyle = color; pen.lineWidth = 0.5;
    pen.globalAlpha = Math.min(0.3, 0.1 + 1500 / (edges.length + 1));
    pen.beginPath();
    for (let e = 0; e < edges.length; e += 2) {
      pen.moveTo(...toPixels(panel, edges[e])); pen.lineTo(...toPixels(panel, edges[e + 1]));
    }
    pen.stroke();
    pen.globalAlpha = 1;
    const {order, rank} = measures[panel.select.value];
    const size = Math.max(1.6, Math.min(5, width / 4.2 / Math.sqrt(count))) * Math.sqrt(view.zoom);
    panel.nodeSize = size;
    for (const node of order) {  // the most uncertain nodes on top
      const [x, y] = toPixels(panel, node);
      outline(pen, node, x, y, size);
      pen.fillStyle = palette[Math.round(63 * rank[node])];
      pen.fill();
      if (kind[node] & WRONG) { pen.strokeStyle = color; pen.lineWidth = Math.max(0.9, size / 3); pen.stroke(); }
    }
    highlight(panel);
  }

  function highlight(panel) {  // shows the buffer, and on top the nodes that are hovered or clicked
    const pen = panel.canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, panel.canvas.width, panel.canvas.height);
    if (clicked >= 0) pen.globalAlpha = 0.25;
    pen.drawImage(panel.buffer, 0, 0);
    pen.globalAlpha = 1;
    pen.scale(ratio, ratio);
    const color = getComputedStyle(root).color, {rank} = measures[panel.select.value];
    const emphasize = (node, size) => {
      outline(pen, node, ...toPixels(panel, node), size);
      pen.fillStyle = palette[Math.round(63 * rank[node])]; pen.fill();
      pen.strokeStyle = color; pen.lineWidth = kind[node] & WRONG ? 2.4 : 1; pen.stroke();
    };
    if (clicked >= 0) {
      const neighbours = [];
      pen.strokeStyle = color; pen.lineWidth = 1; pen.beginPath();
      for (let e = 0; e < edges.length; e += 2) {
        if (edges[e] !== clicked && edges[e + 1] !== clicked) continue;
        pen.moveTo(...toPixels(panel, edges[e])); pen.lineTo(...toPixels(panel, edges[e + 1]));
        neighbours.push(edges[e] === clicked ? edges[e + 1] : edges[e]);
      }
      pen.stroke();
      neighbours.forEach(node => emphasize(node, panel.nodeSize + 1));
      emphasize(clicked, panel.nodeSize + 3);
    }
    if (hovered >= 0) emphasize(hovered, panel.nodeSize + 2);
  }

  const needsNoExponent = value => value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5);
  const format = value => needsNoExponent(value) ? value.toFixed(4) : value.toExponential(3);
  const className = index => index < 0 ? "unknown" : data.classes[index] ?? index;
  const describe = node => {
    const bits = kind[node], part = bits & TEST ? "test" : bits & TRAIN ? "training" : "other";
    const properties = [part, bits & OOD ? "out-of-distribution" : "", bits & WRONG ? "wrong" : ""].filter(text => text);
    const lines = [`node ${data.ids[node] ?? node}: ${properties.join(", ")}`,
                   `class ${className(label[node])}, predicted ${className(predicted[node])}`];
    return [...lines, ...Object.values(measures).map(m => `${m.name} ${format(m.numbers[node])}`)].join("\n");
  };

  function nearestNode(panel, event) {
    let best = -1, smallest = Math.max(8, panel.nodeSize + 2) ** 2;
    for (let node = 0; node < count; node++) {
      const [x, y] = toPixels(panel, node), distance = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (distance < smallest) { smallest = distance; best = node; }
    }
    return best;
  }

  const panels = Array.from(root.querySelectorAll("canvas"), canvas => (
    {canvas, buffer: document.createElement("canvas"), select: canvas.parentElement.querySelector("select")}));
  let dragStart = null, hasMoved = false;
  for (const panel of panels) {
    const {canvas, select} = panel;
    select.addEventListener("change", () => draw(panel));
    canvas.addEventListener("pointermove", event => {
      if (dragStart) {
        const [dx, dy] = [event.offsetX - dragStart[0], event.offsetY - dragStart[1]];
        if (!hasMoved && Math.hypot(dx, dy) < 4) return;
        hasMoved = true;
        view.x += dx / panel.width; view.y += dy / panel.width;
        dragStart = [event.offsetX, event.offsetY];
        panels.forEach(draw);
        return;
      }
      const node = nearestNode(panel, event);
      if (node !== hovered) { hovered = node; panels.forEach(highlight); }
      tip.style.display = node < 0 ? "none" : "block";
      if (node < 0) return;
      tip.textContent = describe(node);
      const area = canvas.getBoundingClientRect(), frame = root.getBoundingClientRect();
      const x = area.left - frame.left + event.offsetX, y = area.top - frame.top + event.offsetY;
      tip.style.left = `${Math.min(x + 14, frame.width - tip.offsetWidth)}px`;
      tip.style.top = `${y + 14}px`;
    });
    canvas.addEventListener("pointerdown", event => {
      dragStart = [event.offsetX, event.offsetY]; hasMoved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", event => {
      dragStart = null;
      if (!hasMoved) { clicked = nearestNode(panel, event); panels.forEach(highlight); }
    });
    canvas.addEventListener("pointercancel", () => { dragStart = null; });
    canvas.addEventListener("pointerleave", () => { hovered = -1; tip.style.display = "none"; panels.forEach(highlight); });
    canvas.addEventListener("dblclick", event => {  // zooms by a factor of two around the pointer
      const [x, y] = [event.offsetX / panel.width - 0.5, event.offsetY / panel.width - 0.5];
      view.x = 2 * view.x - x; view.y = 2 * view.y - y; view.zoom *= 2;
      panels.forEach(draw);
    });
  }
  root.querySelector("button").addEventListener("click", () => {
    Object.assign(view, {zoom: 1, x: 0, y: 0}); clicked = -1;
    panels.forEach(draw);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => panels.forEach(draw));
  const observer = new ResizeObserver(() => panels.forEach(
    panel => panel.canvas.clientWidth !== panel.width && draw(panel)));
  panels.forEach(panel => observer.observe(panel.canvas));
})();
