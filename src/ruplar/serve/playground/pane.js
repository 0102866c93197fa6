// Events of one call → one pane: bars or text, times, answer, votes and remarks.

const SHOWN = 6;
const LEAST = 0.01;

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function milliseconds(ms) {
  return ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

// As shown: no token has half of the probability.
function unsure(latent) {
  return Math.round(100 * latent.probs[0]) < 50;
}

function visible(token) {
  return token.trim() || token.replaceAll(" ", "␣").replaceAll("\n", "↵") || "∅";
}

// One token with its bar; the numbers are also in the text, for screen readers.
function bar(label, share, shown) {
  const row = element("li");
  const track = element("span", "track");
  const filled = element("span", "bar");
  filled.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  track.setAttribute("aria-hidden", "true");
  track.append(filled);
  row.append(element("span", "token", label), track, element("span", "share", shown));
  return row;
}

export class Pane {
  constructor(root) {
    this.root = root;
    this.forget();
  }

  part(name) {
    return this.root.querySelector(`[data-part="${name}"]`);
  }

  forget() {
    this.latents = [];
    this.result = null;
    for (const name of ["thought", "answer", "votes", "remarks", "forwards"]) this.part(name).replaceChildren();
    this.part("clock").textContent = "–";
  }

  show({ event, data }) {
    if (data.ms !== undefined) this.part("clock").textContent = milliseconds(data.ms);
    if (event === "latent") this.latent(data);
    else if (event === "thought") this.part("thought").append(data.text);
    else if (event === "token") this.token(data);
    else if (event === "done") this.done(data);
  }

  latent(data) {
    this.latents.push(data);
    const item = element("li");
    const title = element("h3", "", `z${data.index + 1} `);
    title.append(element("span", "", `entropy ${data.entropy.toFixed(2)} nats, P(end) ${percent(data.halt)}`));
    if (unsure(data)) title.append(" ", element("span", "unsure", "unsure"));
    const list = element("ul", "bars");
    list.setAttribute("aria-label", `Likeliest tokens of soft token ${data.index + 1}`);
    data.tokens.slice(0, SHOWN).forEach((token, i) => {
      if (i === 0 || data.probs[i] >= LEAST) list.append(bar(visible(token), data.probs[i], percent(data.probs[i])));
    });
    item.append(title, list);
    this.part("thought").append(item);
  }

  token(data) {
    const answer = this.part("answer");
    if (!answer.textContent) answer.textContent = "Answer: ";
    answer.append(data.text);
  }

  done(data) {
    this.result = data;
    const kind = this.root.id === "soft" ? "soft tokens" : "chain";
    const thought = data.latents ? `, ${data.latents} for the ${kind}` : "";
    const passes = data.votes
      ? `in all ${this.total()} samples`
      : `1 for the question${thought}, ${data.forwards - 1 - data.latents} for the answer`;
    this.part("forwards").textContent = `${data.forwards} forward passes (calls of the model): ${passes}`;
    this.part("answer").textContent = data.answer === null ? "No answer could be read" : `Answer: ${data.answer}`;
    if (data.votes) this.votes(data.votes);
  }

  total() {
    return this.result.votes.reduce((sum, vote) => sum + vote.count, 0);
  }

  votes(votes) {
    const total = this.total();
    const list = element("ul", "bars");
    list.setAttribute("aria-label", `Votes of ${total} samples`);
    for (const vote of votes) {
      list.append(bar(vote.answer === null ? "none" : vote.answer, vote.count / total, `${vote.count} of ${total}`));
    }
    const note = element("p", "small", "The soft tokens below are those of the first sample; the answer is the majority.");
    this.part("votes").replaceChildren(element("h3", "", `The vote of ${total} samples`), list, note);
  }

  remark(text, kind = "") {
    this.part("remarks").append(element("li", kind, text));
  }

  // Remarks on how reliable the answer is.
  doubts(marked) {
    const data = this.result;
    if (!data) return;
    if (!data.halted) this.remark("The model did not halt; the thought was cut at the limit.");
    if (!data.ended) this.remark("The answer was cut at the token limit.");
    if (data.answer === null) this.remark(`The model wrote: “${data.text}”`);
    for (const z of this.latents.filter(unsure)) {
      this.remark(`The model was unsure at z${z.index + 1}: its most likely token has only ${percent(z.probs[0])}.`);
    }
    if (data.votes) {
      const total = this.total();
      if (data.votes.length === 1) this.remark(`All ${total} samples agree; they can still be wrong.`, "good");
      else this.remark(`The vote is split: ${data.votes[0].count} of ${total} for the answer shown.`);
    }
    if (marked !== null && data.answer !== null) {
      const right = Number(marked) === Number(data.answer) || marked.trim() === data.answer.trim();
      this.remark(right ? "Correct: this is the reference answer." : `Wrong: the reference answer is ${marked}.`, right ? "good" : "bad");
    }
  }

  // The steps of a written chain, each marked in its text so that a soft token can link to it.
  steps() {
    const chain = this.part("thought");
    let rest = chain.textContent;
    const parts = [];
    for (const [i, step] of this.result.steps.entries()) {
      const at = rest.indexOf(step);
      if (at < 0) return this.result.steps;
      const mark = element("span", "step", step);
      mark.id = `step-${i + 1}`;
      parts.push(rest.slice(0, at), mark);
      rest = rest.slice(at + step.length);
    }
    chain.replaceChildren(...parts, rest);
    return this.result.steps;
  }

  // Write at each soft token which step it replaces, only where there are equally many; link to the step where it is on the page.
  replaces(steps) {
    if (!steps.length || steps.length !== this.latents.length) return;
    for (const old of this.part("thought").querySelectorAll(".step")) old.remove();
    [...this.part("thought").children].forEach((item, i) => {
      const id = `step-${i + 1}`;
      const step = element(document.getElementById(id) ? "a" : "span", "", steps[i]);
      if (step.tagName === "A") step.href = `#${id}`;
      const line = element("p", "step", `in place of step ${i + 1}: `);
      line.append(step);
      item.querySelector("h3").after(line);
    });
  }
}
