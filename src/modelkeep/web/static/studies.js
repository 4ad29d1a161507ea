// The studies of the ledger, as they go on, and all jobs.

import { live, make, state } from "./core.js";
import { followJobs } from "./jobs.js";

followJobs(document.querySelector("[data-jobs]"), () => true, "No command was started here yet.");

const place = document.querySelector("[data-studies]");
function show(studies) {
  if (!studies.length) return;
  const names = ["study", "done", "running", "failed", "missing"];
  const rows = studies.map((each) => {
    const address = `/studies/${encodeURIComponent(each.name)}?${new URLSearchParams(state.all())}`;
    const link = make("a", { href: address }, each.name);
    const cells = names.slice(1).map((name) => make("td", { "data-name": name }, String(each[name])));
    const total = each.done + each.running + each.failed + each.missing;
    const bar = make("progress", { max: total, value: each.done, "aria-label": `${each.done} of ${total} done` });
    return make("tr", {}, make("th", { scope: "row" }, link), ...cells, make("td", {}, bar));
  });
  const head = make("tr", {}, ...[...names, ""].map((name) => make("th", { scope: "col" }, name)));
  place.replaceChildren(
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))),
  );
}
let end = null;
function watch() {
  end?.();
  end = document.hidden ? null : live("/api/studies/live", show);
}
watch();
document.addEventListener("visibilitychange", watch);

// A report that a job wrote while the page was open.
let known = null;
document.addEventListener("modelkeep:jobs", ({ detail }) => {
  const now = detail.jobs.flatMap(({ reports }) => reports).join("\n");
  if (known !== null && now !== known) refreshReports();
  known = now;
});
async function refreshReports() {
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  document.getElementById("runs").parentElement.replaceWith(page.getElementById("runs").parentElement);
}
