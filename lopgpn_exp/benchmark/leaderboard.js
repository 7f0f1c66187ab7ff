"use strict";
// The table of the leaderboard: filters, sorting, details of a value, and quality against cost.
(() => {
  const root = document.currentScript.parentElement;
  const data = JSON.parse(root.querySelector(".data").textContent);
  const find = selector => root.querySelector(selector);
  const select = Object.fromEntries(["protocol", "task", "metric", "dataset", "scenario", "family"]
    .map(name => [name, find(`select[name=${name}]`)]));
  const ALL = "all", MEAN = "mean";
  const costColumns = [["train", "training (s)"], ["predict", "prediction (s)"], ["memory", "memory (MB)"]];
  let sorted = null;  // {key, descending}; null: the first column of values, best first

  const create = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const unique = values => [...new Set(values)];
  const inOrder = (values, order) => order.filter(value => values.includes(value))
    .concat(values.filter(value => !order.includes(value)));
  const taskOf = () => data.tasks.find(task => task.name === select.task.value);
  const digits = () => data.nats.includes(select.metric.value) ? 3 : 1;
  const format = value => value === null ? "-" : value.toFixed(Math.abs(value) >= 100 ? 0 : digits());
  const formatCost = value => value === null ? "-" : value >= 100 ? value.toFixed(0) : value.toPrecision(2);

  function fill(name, values, titles) {  // keeps the choice if it still exists
    const before = select[name].value;
    select[name].replaceChildren(...values.map(value => create("option", {value}, titles[value] ?? value)));
    if (values.includes(before)) select[name].value = before;
    select[name].disabled = values.length < 2;
  }

  function rowsOf(filters) {
    return data.rows.filter(row => Object.entries(filters).every(([key, value]) => row[key] === value));
  }

  function updateControls() {
    fill("protocol", Object.keys(data.names.protocol), data.names.protocol);
    const protocol = {protocol: select.protocol.value};
    const present = unique(rowsOf(protocol).map(row => row.task));
    const tasks = data.tasks.filter(task => present.includes(task.name));
    fill("task", tasks.map(task => task.name), Object.fromEntries(tasks.map(task => [task.name, task.title])));
    const rows = rowsOf({...protocol, task: select.task.value});
    fill("metric", taskOf().metrics.filter(path => rows.some(row => row.metric === path)), data.names.metric);
    const datasets = inOrder(unique(rows.map(row => row.dataset)), [ALL, ...data.order]);
    fill("dataset", unique([ALL, ...datasets]), {...data.names.dataset, [ALL]: "All datasets"});
    const scenarios = unique(rows.filter(row => row.dataset !== ALL).map(row => row.scenario));
    fill("scenario", inOrder(scenarios, [MEAN]), data.names.scenario);
    fill("family", [ALL, ...unique(Object.values(data.families)).sort()], {[ALL]: "All families"});
    find(".question").textContent = taskOf().question;
  }

  function addSplits(column) {  // how many splits, or datasets, the means of a column are made from
    const {title, ...filters} = column, most = Math.max(0, ...rowsOf(filters).map(row => row.most));
    const unit = (column.dataset === ALL ? "dataset" : "split") + (most === 1 ? "" : "s");
    return {filters, title, note: `${most} ${unit}`};
  }

  // All datasets: one column per dataset. One dataset: one column per scenario.
  function listColumns() {
    const filters = {protocol: select.protocol.value, task: select.task.value, metric: select.metric.value};
    const dataset = select.dataset.value, rows = rowsOf(filters);
    if (dataset !== ALL) {
      const scenarios = inOrder(unique(rows.filter(row => row.dataset === dataset).map(row => row.scenario)), [MEAN]);
      return scenarios.map(scenario => ({...filters, dataset, scenario, title: data.names.scenario[scenario]}))
        .map(addSplits);
    }
    const scenario = select.scenario.value;
    const datasets = inOrder(unique(rows.map(row => row.dataset)), [ALL, ...data.order]);
    return datasets.map(name => {
      const column = {...filters, dataset: name, scenario: name === ALL ? MEAN : scenario};
      return addSplits({...column, title: data.names.dataset[name]});
    }).filter(({filters}) => filters.dataset !== ALL || scenario === MEAN || select.scenario.options.length === 1)
      .filter(({filters}) => rowsOf(filters).length);
  }

  function collect() {
    const columns = listColumns(), models = Object.create(null);  // no name of a model is a property of all objects
    for (const {model} of rowsOf({protocol: select.protocol.value, task: select.task.value}))
      models[model] ??= {model, cells: [], costs: {}};  // also those without a value in these columns
    columns.forEach((column, index) => {
      for (const row of rowsOf(column.filters)) {
        models[row.model].cells[index] = row;
      }
    });
    for (const cost of data.costs) {
      if (cost.protocol === select.protocol.value && cost.dataset === select.dataset.value && models[cost.model])
        models[cost.model].costs = cost;
    }
    const isShown = row => [ALL, data.families[row.model]].includes(select.family.value);
    return {columns, rows: Object.values(models).filter(isShown)};
  }

  function valueOf(row, key) {
    if (key === "model") return data.names.model[row.model].toLowerCase();
    if (typeof key === "number") return row.cells[key]?.mean ?? null;
    return row.costs[key] ?? null;
  }

  function sortRows(rows) {
    const isLower = data.lower.includes(select.metric.value);
    const {key, descending} = sorted ?? {key: 0, descending: !isLower};
    rows.sort((a, b) => {
      const [x, y] = [valueOf(a, key), valueOf(b, key)];
      if (x === null || y === null) return (x === null) - (y === null);  // missing values last
      return (x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1) || a.model.localeCompare(b.model);
    });
    return {key, descending};
  }

  function header(title, key, order, ...notes) {
    const button = create("button", {type: "button"}, title);
    button.addEventListener("click", () => {
      const isText = key === "model", isLower = data.lower.includes(select.metric.value) || typeof key !== "number";
      sorted = {key, descending: order.key === key ? !order.descending : !isText && !isLower};
      draw();
    });
    const attributes = key === "model" ? {class: "model"} : {class: "number"};
    if (order.key === key) attributes["aria-sort"] = order.descending ? "descending" : "ascending";
    return create("th", attributes, button, ...notes.map(note => create("small", {}, note)));
  }

  function showDetails(cell) {
    const names = data.names, details = find(".details");
    const measure = cell.measure ? ` by ${names.measure[cell.measure] ?? cell.measure}` : "";
    const interval = cell.low === null ? "" : `, 95 % interval ${format(cell.low)} to ${format(cell.high)}`;
    const unit = (cell.dataset === ALL ? "dataset" : "split") + (cell.splits === 1 ? "" : "s");
    const test = cell.best ? "the best" : cell.tied === null ? "not tested"
      : cell.tied ? "not significantly worse than the best" : "significantly worse than the best";
    const isAll = cell.dataset === ALL, datasets = isAll ? cell.units.join(",") : cell.dataset;
    const options = (cell.scenario === MEAN ? "" : ` ood=${cell.scenario}`)
      + (isAll ? "" : ` split.index=${cell.units.join(",")}`);
    const command = cell.task === "shift"
      ? `lopgpn_exp benchmark --protocol ${cell.protocol} --models ${cell.model} --datasets ${datasets}`
      : `lopgpn_exp protocol=${cell.protocol} model=${cell.model} dataset=${datasets}${options} -m`;
    const own = data.families[cell.model] === "Yours" ? " --config-dir conf" : "";
    details.replaceChildren(
      `${names.model[cell.model]}, ${names.dataset[cell.dataset]}, ${names.scenario[cell.scenario]}: ` +
      `${names.metric[cell.metric]}${measure} ${format(cell.mean)}${interval}; rank ${cell.rank}, ` +
      `${test}; ${cell.runs} runs on ${cell.splits} ${unit}. `, create("code", {}, command + own));
    const pages = data.pages[[cell.protocol, cell.dataset, cell.scenario, cell.model].join(" ")] ?? [];
    pages.forEach((id, index) => details.append(index ? " " : " Runs: ",
      create("a", {href: `../runs/${encodeURIComponent(id)}/page.html`}, String(index + 1))));
    details.hidden = false;
    details.scrollIntoView({block: "nearest"});
  }

  function tableCell(cell) {
    if (!cell) return create("td", {class: "number"}, "-");
    const half = cell.low === null ? "" : ` ± ${format((cell.high - cell.low) / 2)}`;
    const few = cell.partial ? [create("sup", {}, cell.dataset === ALL ? "†" : String(cell.splits))] : [];
    const button = create("button", {type: "button"}, format(cell.mean), create("small", {}, half), ...few);
    button.addEventListener("click", () => showDetails(cell));
    const state = cell.best ? "best" : cell.tied === null ? "untested" : cell.tied ? "tied" : "";
    return create("td", {class: `number ${state}`}, button);
  }

  function drawTable({columns, rows}) {
    const order = sortRows(rows);
    find("thead").replaceChildren(create("tr", {}, header("method", "model", order),
      ...columns.map((column, index) => header(column.title, index, order, column.note)),
      ...costColumns.map(([key, title]) => header(title, key, order))));
    find("tbody").replaceChildren(...rows.map(row => {
      const swatch = create("span", {class: "swatch", style: `background: ${data.colors[data.families[row.model]]}`});
      const name = create("th", {class: "model", title: data.families[row.model]}, swatch, data.names.model[row.model]);
      return create("tr", {}, name, ...columns.map((_, index) => tableCell(row.cells[index])),
        ...costColumns.map(([key]) => create("td", {class: "number"}, formatCost(row.costs[key] ?? null))));
    }));
    return typeof order.key === "number" ? order.key : 0;
  }

  function drawScatter({columns, rows}, column) {
    const svg = find("svg.scatter"), space = "http://www.w3.org/2000/svg";
    const add = (tag, attributes, text = "") => {
      const element = document.createElementNS(space, tag);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      svg.append(element);
    };
    svg.replaceChildren();
    const points = rows.filter(row => row.cells[column] && row.costs.train > 0)
      .map(row => ({row, x: Math.log10(row.costs.train), y: row.cells[column].mean}));
    if (points.length < 2) return add("text", {x: 20, y: 30}, "There are fewer than two methods with known costs.");
    const range = values => [Math.min(...values), Math.max(...values)];
    const [left, right] = range(points.map(point => point.x)), [low, high] = range(points.map(point => point.y));
    const x = value => 60 + 560 * (value - left) / (right - left || 1);
    const y = value => 350 - 320 * (value - low) / (high - low || 1);
    add("line", {x1: 50, x2: 700, y1: 362, y2: 362});
    add("line", {x1: 50, x2: 50, y1: 20, y2: 362});
    for (const value of [left, (left + right) / 2, right])
      add("text", {x: x(value), y: 378, "text-anchor": "middle"}, formatCost(10 ** value));
    for (const value of [low, (low + high) / 2, high])
      add("text", {x: 46, y: y(value) + 4, "text-anchor": "end"}, format(value));
    add("text", {x: 370, y: 396, "text-anchor": "middle"}, "training (processor seconds)");
    add("text", {x: 54, y: 14}, `${data.names.metric[select.metric.value]}, ${columns[column].title}`);
    const labels = [];  // each in the nearest line in which it covers no other
    for (const point of points.sort((a, b) => b.y - a.y)) {
      const family = data.families[point.row.model], name = data.names.model[point.row.model];
      const label = {left: x(point.x) + 8, right: x(point.x) + 12 + 6.2 * name.length};
      const taken = labels.filter(other => label.left < other.right && other.left < label.right);
      const isFree = line => taken.every(other => Math.abs(line - other.y) >= 11);
      for (let shift = 0; !isFree(label.y = y(point.y) + 4 + 11 * shift); shift = shift < 0 ? -shift : -shift - 1);
      labels.push(label);
      add("line", {x1: x(point.x), y1: y(point.y), x2: label.left, y2: label.y - 4});
      add("circle", {cx: x(point.x), cy: y(point.y), r: 4.5, fill: data.colors[family]});
      add("text", {x: label.left, y: label.y}, name);
    }
  }

  function draw() {
    const content = collect();
    drawScatter(content, drawTable(content));
  }

  for (const control of Object.values(select)) {
    control.addEventListener("change", () => {
      sorted = null;
      updateControls();
      draw();
    });
  }
  updateControls();
  draw();
})();
