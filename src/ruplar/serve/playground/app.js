// The page: reads the form, runs the two calls one after the other, shows their events and errors.

import { Pane, milliseconds } from "./pane.js";
import { asCurl, asLink, asPython, fromLink } from "./snippets.js";
import { info, think } from "./stream.js";

const byId = (id) => document.getElementById(id);
const soft = new Pane(byId("soft"));
const text = new Pane(byId("text"));
const SLIDERS = { samples: "samples", noise: "noise", temperature: "temperature" };
let about = null;
let running = null;

function say(message) {
  byId("status").textContent = message;
}

function fail(error, where = "") {
  const box = byId("error");
  const wait = error.retry ? ` Try again in ${error.retry} s.` : "";
  box.textContent = `${where}${error.message}${/[.!?]$/.test(error.message) ? "" : "."}${wait}`;
  box.hidden = false;
}

function call() {
  const found = { question: byId("question").value.trim(), seed: Math.max(0, Math.round(Number(byId("seed").value) || 0)) };
  for (const [name, id] of Object.entries(SLIDERS)) {
    if (!byId(id).disabled) found[name] = Number(byId(id).value);
  }
  return { samples: 1, temperature: 0, ...found };
}

function showValues() {
  for (const id of Object.values(SLIDERS)) byId(`${id}-value`).textContent = byId(id).value;
  const same = Number(byId("samples").value) > 1 && !Number(byId("noise").value) && !Number(byId("temperature").value);
  byId("samples-about").textContent = same
    ? "All samples will be identical: raise the noise or the temperature."
    : "Number of sampled answers; the majority wins.";
  if (!about) return;
  const chosen = call();
  byId("permalink").href = asLink(chosen);
  byId("curl").textContent = asCurl(chosen, about, location.origin);
  byId("python").textContent = asPython(chosen, about, location.origin);
}

function adjust(id, limits, disabledBecause) {
  const input = byId(id);
  if (limits.max !== undefined) input.max = limits.max;
  input.disabled = Boolean(disabledBecause);
  if (disabledBecause) byId(`${id}-about`).textContent = disabledBecause;
}

function introduce() {
  const { model, method, version, compare } = about;
  byId("about").textContent = `Model ${model} (method ${method}), ruplar ${version}.`;
  byId("caution").textContent = model.startsWith("embedded")
    ? "This model is tiny and was trained on generated word problems only. On other questions it answers just as confidently, " +
      "and wrongly. A high probability means that the model is confident, not that it is correct."
    : "A high probability means that the model is confident, not that it is correct.";
  if (!about.latent) {
    byId("soft-title").textContent = `Method ${method} (no soft tokens)`;
    byId("terms").hidden = true;
  }
  if (!compare) {
    byId("text").hidden = true;
    document.querySelector(".panes").classList.add("alone");
    byId("about").textContent += " No model that writes its chain is loaded, so there is nothing to compare with.";
  }
  adjust("samples", { max: about.limits.samples });
  adjust("noise", {}, about.noise.adjustable ? "" : "This model does not support noise on its latents.");
  byId("question").maxLength = about.limits.question_chars;
  const list = byId("example");
  for (const [i, example] of about.examples.entries()) {
    list.append(new Option(example.question, String(i)));
  }
}

// The example that the question is, unmodified; undefined for any other question.
function exampleOf(question) {
  return about.examples.find((example) => example.question === question);
}

async function run(pane, model, call, signal) {
  for await (const event of think(model, call, signal)) pane.show(event);
}

function compare(answer) {
  const [a, b] = [soft.result, text.result];
  const verdict = byId("verdict");
  if (!a) return;
  const known = answer === null ? " There is no reference answer, so neither answer has been checked." : "";
  if (!b) {
    verdict.textContent = known.replace("neither answer has", "the answer has not").trim();
    return;
  }
  const times = (b.forwards / a.forwards).toFixed(1);
  const agree = a.answer === b.answer ? "Both give the same answer." : "The two disagree, so at least one is wrong.";
  const passes = a.forwards < b.forwards ? `${times} times fewer forward passes` : "no fewer forward passes";
  const slow = a.ms > b.ms && !a.votes ? " The time of a single call varies, and others may be using the server." : "";
  verdict.textContent =
    `${agree} Soft tokens took ${passes}; times: ${milliseconds(a.ms)} and ${milliseconds(b.ms)}.${slow}${known}`;
}

async function ask(event) {
  event?.preventDefault();
  const chosen = call();
  if (!about || running) return;
  byId("error").hidden = true;
  byId("verdict").textContent = "";
  soft.forget();
  text.forget();
  if (!chosen.question) {
    fail(new Error("Write a problem first, or pick one"));
    byId("question").focus();
    return;
  }
  showValues();
  running = new AbortController();
  byId("go").disabled = true;
  byId("stop").disabled = false;
  const example = exampleOf(chosen.question);
  const answer = example?.answer ?? null;
  let [pane, where] = [soft, ""];
  try {
    say("Thinking in soft tokens …");
    await run(soft, about.model, chosen, running.signal);
    soft.doubts(answer);
    if (example) soft.replaces(example.steps);
    if (about.compare) {
      // one after the other: two at once would share the machine and distort both times
      say("Now the same question as text …");
      [pane, where] = [text, "Written chain: "];
      const { question, seed, temperature } = chosen;
      // a text chain has no noise: without temperature its samples would be identical
      const samples = temperature ? chosen.samples : 1;
      await run(text, about.compare, { question, seed, temperature, samples }, running.signal);
      text.doubts(answer);
      soft.replaces(text.steps());
    }
    const said = soft.result?.answer;
    say(said === null ? "Done: no answer could be read." : `Done. Answer: ${said}.`);
    compare(answer);
  } catch (error) {
    if (error.name === "AbortError") say("Stopped.");
    else {
      say("");
      pane.forget();
      fail(error, where);
    }
  } finally {
    running = null;
    byId("go").disabled = false;
    byId("stop").disabled = true;
  }
}

function listen() {
  byId("ask").addEventListener("submit", ask);
  byId("stop").addEventListener("click", () => running?.abort());
  byId("ask").addEventListener("input", showValues);
  byId("question").addEventListener("input", () => {
    byId("example").value = "";
  });
  byId("samples").addEventListener("change", () => {
    // identical samples would be useless; the slider shows the change
    const noise = byId("noise").disabled ? byId("temperature") : byId("noise");
    if (Number(byId("samples").value) > 1 && !Number(byId("noise").value) && !Number(byId("temperature").value)) {
      noise.value = noise.id === "noise" ? about.noise.of_samples : 1;
      showValues();
    }
  });
  byId("example").addEventListener("change", (event) => {
    const example = about.examples[Number(event.target.value)];
    if (event.target.value !== "" && example) byId("question").value = example.question;
    showValues();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && running) running.abort();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(event);
  });
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
        say("Copied.");
      } catch {
        say("The browser does not allow copying here; mark the text instead.");
      }
    });
  }
}

async function begin() {
  listen();
  try {
    about = await info();
  } catch (error) {
    byId("about").textContent = "";
    byId("go").disabled = true;
    fail(error, "Cannot load the server's settings: ");
    return;
  }
  introduce();
  const given = fromLink(location.hash);
  byId("question").value = given.question ?? about.examples[0]?.question ?? "";
  if (given.question === undefined && about.examples.length) byId("example").value = "0";
  if (given.seed !== undefined) byId("seed").value = given.seed;
  for (const [name, id] of Object.entries(SLIDERS)) {
    if (given[name] !== undefined && !byId(id).disabled) byId(id).value = given[name];
  }
  byId("settings").open = Object.keys(given).length > 1;
  showValues();
}

begin();
