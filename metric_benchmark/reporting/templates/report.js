"use strict";
// Interaction of the report: tooltips and keyboard cursors in figures, drill-down, sortable tables, theme.
// Everything shown is read from the embedded records (#data) and put in as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const cases = new Map(data.cases.map((c) => [c.id, c]));
  const tip = document.getElementById("tip");

  // ---- small tools -------------------------------------------------------------------------------------------
  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children.flat());
    return node;
  };
  const address = (kind, c, name) => "#" + [kind, c.id, name].map(encodeURIComponent).join("/");
  const link = (kind, c, name) => el("a", { href: address(kind, c, name), class: "name" }, name);
  const list = (nodes) => (nodes.length ? nodes.flatMap((n, i) => (i ? [", ", n] : [n])) : ["none"]);
  const share = (x) => (x === null || x === undefined ? "undefined" : x.toFixed(3));
  const many = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const metricOf = (c, name) => c.metrics.find((m) => m.name === name);

  // ---- tooltip -----------------------------------------------------------------------------------------------
  const showTip = (lines, x, y) => {
    tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 4))}px`;
    tip.style.top = `${Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18)}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  const inside = (svg, event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };
  const onScreen = (svg, x, y) => {
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    return [box.left + x * scale, box.top + y * scale];
  };

  // ---- scatter and residual plot: a point per subset ---------------------------------------------------------
  const setUpPoints = (svg, c) => {
    const metric = metricOf(c, svg.dataset.metric);
    const points = [...svg.querySelectorAll("circle.p")].map((node) => ({
      node, i: Number(node.dataset.i), x: node.cx.baseVal.value, y: node.cy.baseVal.value,
    })).sort((a, b) => a.x - b.x || a.y - b.y);
    let at = -1;
    const mark = (found) => {
      points.forEach((p) => p.node.classList.toggle("on", found.includes(p)));
    };
    const same = (p) => points.filter((q) => Math.hypot(q.x - p.x, q.y - p.y) < 1.5);
    const describe = (found) => {
      const lines = found.slice(0, 5).map(({ i }) => {
        const s = c.subsets[i];
        return `${s.id}: ${many(s.size, "task")}, coverage ${share(metric.coverage[i])}, score ${share(s.score)}`;
      });
      return found.length > 5 ? [...lines, `and ${found.length - 5} more at this place`] : lines;
    };
    const open = (p) => { location.hash = address("subset", c, c.subsets[p.i].id); };
    const nearest = (event) => {
      const [x, y] = inside(svg, event);
      const [best] = points.map((p) => [Math.hypot(p.x - x, p.y - y), p]).sort((a, b) => a[0] - b[0]);
      return best && best[0] < 14 ? best[1] : null;
    };
    svg.addEventListener("pointermove", (event) => {
      const p = nearest(event);
      if (!p) { mark([]); hideTip(); return; }
      at = points.indexOf(p);
      mark(same(p));
      showTip(describe(same(p)), event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => { mark([]); hideTip(); });
    svg.addEventListener("click", (event) => { const p = nearest(event); if (p) open(p); });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step && points.length) {
        at = at < 0 ? 0 : (at + step + points.length) % points.length;
        mark(same(points[at]));
        showTip(describe([points[at]]), ...onScreen(svg, points[at].x, points[at].y));
        event.preventDefault();
      } else if (event.key === "Enter" && at >= 0) { open(points[at]); } else if (event.key === "Escape") { hideTip(); }
    });
    svg.addEventListener("blur", () => { mark([]); hideTip(); });
  };

  // ---- kill and cover matrix: a cursor over cells ------------------------------------------------------------
  const killText = (c, task, v) => {
    const variant = c.variants[v];
    const outcome = variant.killed_by.includes(task) ? "killed"
      : variant.undetermined.includes(task) ? "undetermined" : "survived";
    const lines = [`${c.tasks[task]} × ${variant.id}: ${outcome}`];
    const cell = variant.cells[task];
    if (cell) lines.push(`passed: baseline ${cell[0]} of ${cell[1]}, mutant ${cell[2]} of ${cell[3]}`);
    if (cell && cell[4] !== null) lines.push(`adjusted p ${cell[4].toPrecision(3)}`);
    return lines;
  };
  const coverText = (c, metric, task, item) => [
    `${c.tasks[task]} × ${metric.items[item]}`,
    (metric.tasks[task] || []).includes(item) ? "exercised" : "not exercised",
  ];
  const setUpMatrix = (svg, c) => {
    const isKills = svg.dataset.fig === "kills";
    const metric = isKills ? null : metricOf(c, svg.dataset.metric);
    const { rows, columns } = isKills ? c : metric;
    const [left, top, cell] = [svg.dataset.x, svg.dataset.y, svg.dataset.cell].map(Number);
    const n = Math.min(rows.length, Number(svg.dataset.rows)), m = Math.min(columns.length, Number(svg.dataset.columns));
    const cursor = svg.querySelector(".cursor");
    let row = 0, column = 0;
    const show = (x, y) => {
      const [cx, cy] = [left + column * cell, top + row * cell];
      cursor.setAttribute("d", `M${cx - 1} ${cy - 1}h${cell + 1}v${cell + 1}h-${cell + 1}z`);
      showTip(isKills ? killText(c, rows[row], columns[column]) : coverText(c, metric, rows[row], columns[column]), x, y);
    };
    const hide = () => { cursor.setAttribute("d", ""); hideTip(); };
    const openTask = () => { location.hash = address("task", c, c.tasks[rows[row]]); };
    const openColumn = () => {
      if (isKills) location.hash = address("mutant", c, c.variants[columns[column]].id); else openTask();
    };
    const locate = (event) => {
      const [x, y] = inside(svg, event);
      return [Math.floor((y - top) / cell), Math.floor((x - left) / cell)];
    };
    const within = (value, end) => value >= 0 && value < end;
    svg.addEventListener("pointermove", (event) => {
      const [r, k] = locate(event);
      if (!within(r, n) || !within(k, m)) { hide(); return; }
      [row, column] = [r, k];
      show(event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("click", (event) => {
      const [r, k] = locate(event);
      if (within(r, n)) row = r;
      if (within(k, m)) column = k;
      if (within(k, m)) openColumn(); else if (within(r, n)) openTask();
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (step) {
        row = Math.max(0, Math.min(n - 1, row + step[0]));
        column = Math.max(0, Math.min(m - 1, column + step[1]));
        show(...onScreen(svg, left + (column + 1) * cell, top + (row + 1) * cell));
        event.preventDefault();
      } else if (event.key === "Enter") { openColumn(); } else if (event.key === "Escape") { hide(); }
    });
  };

  // ---- drill-down --------------------------------------------------------------------------------------------
  const trialsOf = (c, variant, task) => (c.trials[variant] || []).flatMap(([folder, run, members]) =>
    members.filter((t) => t[0] === task).map(([, attempt, trial, status, reward, steps]) => {
      const name = trial.startsWith("~") ? `${c.tasks[task]}__${trial.slice(1)}` : trial;
      const job = ["execution", c.id, variant, folder, "jobs", run, name];
      const files = steps === 0 ? [] : steps === 1 ? [["agent", "trajectory.json"]]
        : steps.map((step) => ["steps", step, "agent", "trajectory.json"]);
      const base = data.base ? data.base.split("/") : [];
      return { attempt, name, status: data.statuses[status].replace("_", " "), reward,
        files: files.map((file) => [...base, ...job, ...file].map(encodeURIComponent).join("/")) };
    }));
  const trialTable = (c, variants, task) => {
    const rows = variants.flatMap((variant) => trialsOf(c, variant, task).map((t) => el("tr", {},
      el("td", { class: "name" }, variant), el("td", { class: "n" }, String(t.attempt)), el("td", {}, t.status),
      el("td", { class: "n" }, t.reward === null ? "–" : String(t.reward)),
      el("td", { class: "name" }, t.name, ...t.files.flatMap((href, i) =>
        [" ", el("a", { href }, t.files.length > 1 ? `trajectory ${i + 1}` : "trajectory")])))));
    if (!rows.length) return el("p", { class: "soft" }, "No trials are listed in this report.");
    const heads = ["variant", "attempt", "status", "reward", "trial"];
    return el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, heads.map((h) => el("th", {}, h)))), el("tbody", {}, rows)));
  };
  const fold = (title, ...content) => el("details", {}, el("summary", {}, title), ...content);
  const mutantsKilledBy = (c, task) => c.variants.slice(0, c.n_mutants).filter((v) => v.killed_by.includes(task));

  const describeMutant = (c, v) => {
    const number = c.variants.indexOf(v);
    const detecting = c.subsets.filter((s) => s.detected.includes(number));
    const isControl = number >= c.n_mutants;
    const remarks = [v.is_inert && `inert: ${v.effect}`, v.is_trivial && "trivial: every task kills it", v.is_dominator && "dominator",
      v.duplicate_of && `killed by the same tasks as ${v.duplicate_of}`].filter(Boolean);
    return [
      el("p", {}, `${isControl ? "Control" : `Operator ${v.operator || "unknown"}`}; `,
        v.is_never_killed && v.status === "survived" ? "never killed here" : v.status,
        remarks.length ? `; ${remarks.join("; ")}` : "", "."),
      isControl ? [] : el("p", {}, `Caught by ${detecting.length} of ${many(c.subsets.length, "subset")}.`),
      el("p", {}, `Killed by ${many(v.killed_by.length, "task")}: `,
        list(v.killed_by.map((t) => link("task", c, c.tasks[t]))), "."),
      v.undetermined.length ? el("p", {}, "Undetermined on ",
        list(v.undetermined.map((t) => link("task", c, c.tasks[t]))), ".") : [],
      [...v.killed_by, ...v.undetermined].map((t) =>
        fold(`Trials on ${c.tasks[t]}: ${killText(c, t, number).slice(1).join("; ")}`,
          trialTable(c, [v.id, "baseline"], t))),
    ];
  };
  const describeTask = (c, task) => {
    const killed = mutantsKilledBy(c, task);
    const alone = killed.filter((v) => v.killed_by.length === 1);
    const ineligible = c.ineligible[task];
    return [
      ineligible ? el("p", {}, `Not eligible: ${ineligible}.`) : [],
      el("p", {}, `Kills ${many(killed.length, "mutant")}: `, list(killed.map((v) => link("mutant", c, v.id))), "."),
      el("p", {}, "Kills alone: ", list(alone.map((v) => link("mutant", c, v.id))), "."),
      ineligible ? [] : el("p", {}, alone.length ? "Not redundant: without it, these kills are lost."
        : "Redundant for these mutants: without it, no kill is lost."),
      c.metrics.filter((m) => m.kind === "items").map((m) => {
        const own = m.tasks[task];
        if (!own) return el("p", {}, `${m.name}: not measured here.`);
        const others = new Set(Object.entries(m.tasks).filter(([t]) => Number(t) !== task).flatMap(([, items]) => items));
        const only = own.filter((i) => !others.has(i));
        return fold(`${m.name}: exercises ${own.length} of ${many(m.items.length, "item")}, ${only.length} of them alone`,
          el("p", { class: "name" }, own.map((i) => m.items[i] + (others.has(i) ? "" : " (alone)")).join(", ") || "none"));
      }),
      fold("Trials of the baseline", trialTable(c, ["baseline", "screening"], task)),
    ];
  };
  const describeSubset = (c, s) => {
    const number = c.subsets.indexOf(s);
    const mutants = c.variants.slice(0, c.n_mutants);
    const missed = mutants.filter((v, i) => !s.detected.includes(i));
    const killable = missed.filter((v) => v.killed_by.length);
    return [
      el("p", {}, `${many(s.size, "eligible task")}; mutant score ${share(s.score)}`,
        s.high > s.low ? ` (${share(s.low)} to ${share(s.high)} with what is undetermined)` : "", "."),
      el("p", {}, "Tasks: ", list(s.tasks.map((t) => link("task", c, c.tasks[t]))), "."),
      el("p", {}, `Catches ${s.detected.length} of ${many(mutants.length, "mutant")}: `,
        list(s.detected.map((v) => link("mutant", c, c.variants[v].id))), "."),
      el("p", {}, "Misses, though the whole suite catches them: ", list(killable.map((v) => link("mutant", c, v.id))), "."),
      c.metrics.map((m) => {
        const covered = new Set(s.tasks.filter((t) => c.eligible.includes(t)).flatMap((t) => m.tasks[t] || []));
        const gaps = m.items.filter((_, i) => !covered.has(i));
        const title = `${m.name}: coverage ${share(m.coverage[number])}`;
        if (m.kind !== "items") return el("p", {}, `${title} (opaque: no items).`);
        return fold(`${title}; covers ${covered.size}, misses ${gaps.length}`,
          el("p", { class: "name" }, "Misses: ", gaps.join(", ") || "nothing"),
          el("p", { class: "name" }, "Covers: ", m.items.filter((_, i) => covered.has(i)).join(", ") || "nothing"));
      }),
    ];
  };
  const KINDS = {
    mutant: { names: (c) => c.variants.map((v) => v.id), show: (c, i) => describeMutant(c, c.variants[i]) },
    task: { names: (c) => c.tasks, show: (c, i) => describeTask(c, i) },
    subset: { names: (c) => c.subsets.map((s) => s.id), show: (c, i) => describeSubset(c, c.subsets[i]) },
  };
  const panelOf = (c) => [...document.querySelectorAll(".explore")].find((p) => p.dataset.case === c.id);
  const setUpPanel = (panel) => {
    const c = cases.get(panel.dataset.case);
    panel.hidden = false;
    if (c.n_trials_left_out) {
      panel.append(el("p", { class: "soft" }, `To keep this file small, ${many(c.n_trials_left_out, "trial")} that did not `
        + "kill are not listed here; the CSV table of trials has all of them."));
    }
    panel.querySelector(".choose").append(...Object.entries(KINDS).map(([kind, { names }]) => {
      const select = el("select", { "data-kind": kind }, el("option", { value: "" }, "choose"),
        names(c).map((name) => el("option", { value: name }, name)));
      select.addEventListener("change", () => { if (select.value) location.hash = address(kind, c, select.value); });
      return el("label", {}, `${kind} `, select);
    }));
  };
  const follow = () => {
    const [kind, id, name] = location.hash.slice(1).split("/").map(decodeURIComponent);
    const c = cases.get(id), how = KINDS[kind];
    const panel = c && how && panelOf(c);
    if (!panel) return;
    const number = how.names(c).indexOf(name);
    if (number < 0) return;
    panel.querySelectorAll("select").forEach((s) => { s.value = s.dataset.kind === kind ? name : ""; });
    const head = el("h4", { tabindex: "-1" }, `${kind[0].toUpperCase()}${kind.slice(1)} `, el("span", { class: "name" }, name));
    panel.querySelector(".detail").replaceChildren(head, ...how.show(c, number).flat(9));
    hideTip();
    panel.scrollIntoView({ block: "start" });
    head.focus({ preventScroll: true });
  };

  // ---- tables, legends, theme, print -------------------------------------------------------------------------
  const setUpTable = (table) => {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = el("button", { type: "button" }, ...head.childNodes);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => { const t = row.cells[column].textContent.trim(); return Number.isNaN(Number(t)) ? t : Number(t); };
        const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
        body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * order(key(a), key(b))));
      });
    });
  };
  const setUpLegend = (group) => {
    const c = cases.get(group.querySelector("svg[data-fig]").dataset.case);
    group.querySelectorAll("button[data-size]").forEach((button, _, all) => button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      all.forEach((b) => b.setAttribute("aria-pressed", String(on && b === button)));
      group.querySelectorAll("circle.p").forEach((p) => {
        p.classList.toggle("dim", on && c.subsets[Number(p.dataset.i)].size !== Number(button.dataset.size));
      });
    }));
  };
  const setUpTheme = (button) => {
    const themes = ["automatic", "light", "dark"];
    let at = 0;
    const apply = () => {
      const dark = at === 0 ? matchMedia("(prefers-color-scheme: dark)").matches : at === 2;
      document.documentElement.dataset.theme = dark ? "dark" : "light";
      button.textContent = `Theme: ${themes[at]}`;
    };
    button.hidden = false;
    button.addEventListener("click", () => { at = (at + 1) % 3; apply(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
    apply();
  };

  document.querySelectorAll("svg[data-fig]").forEach((svg) => {
    const c = cases.get(svg.dataset.case);
    if (["kills", "cover"].includes(svg.dataset.fig)) setUpMatrix(svg, c); else setUpPoints(svg, c);
  });
  document.querySelectorAll(".explore").forEach(setUpPanel);
  document.querySelectorAll("table.sortable").forEach(setUpTable);
  document.querySelectorAll(".sized").forEach(setUpLegend);
  setUpTheme(document.getElementById("theme"));
  addEventListener("hashchange", follow);
  addEventListener("scroll", hideTip, { passive: true });
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((d) => { d.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((d) => { d.open = false; }));
  follow();
})();
