// Events of one call → one pane: bars or text, times, answer, votes and remarks.

const SHOWN = 6;
const LEAST = 0.01;
export const UNSURE = 0.5;

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

function many(count, what) {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
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
    for (const name of ["thought", "answer", "votes", "remarks"]) this.part(name).replaceChildren();
    this.part("clock").textContent = "–";
    this.part("forwards").textContent = "– forward passes";
  }

  show({ event, data }) {
    if (data.ms !== undefined && event !== "sample") this.part("clock").textContent = milliseconds(data.ms);
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
    if (data.probs[0] < UNSURE) title.append(" ", element("span", "unsure", "unsure"));
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
    const kind = this.root.id === "soft" ? "soft token" : "reasoning token";
    const each = data.votes ? " (of the first sample; the clock is of all)" : "";
    this.part("forwards").textContent =
      `${data.forwards} forward passes: ${many(data.latents, kind)}, ${many(data.answer_tokens, "answer token")}${each}`;
    this.part("answer").textContent = data.answer === null ? "No answer could be read" : `Answer: ${data.answer}`;
    if (data.votes) this.votes(data.votes);
  }

  votes(votes) {
    const total = votes.reduce((sum, vote) => sum + vote.count, 0);
    const list = element("ul", "bars");
    list.setAttribute("aria-label", `Votes of ${total} samples`);
    for (const vote of votes) {
      list.append(bar(vote.answer === null ? "unread" : vote.answer, vote.count / total, `${vote.count} of ${total}`));
    }
    const note = element("p", "small", "The thought above is that of the first sample; the answer is the majority.");
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
    const vague = this.latents.filter((z) => z.probs[0] < UNSURE);
    if (vague.length) {
      const names = vague.map((z) => `z${z.index + 1} (${percent(z.probs[0])})`).join(", ");
      this.remark(`The model was unsure: no token of ${names} holds half of the probability.`);
    }
    if (data.votes) {
      const total = data.votes.reduce((sum, vote) => sum + vote.count, 0);
      if (data.votes.length === 1) this.remark(`All ${total} samples agree; they can still be wrong.`, "good");
      else this.remark(`The vote is split: ${data.votes[0].count} of ${total} for the answer shown.`);
    }
    if (marked !== null && data.answer !== null) {
      const right = Number(marked) === Number(data.answer) || marked.trim() === data.answer.trim();
      this.remark(right ? "Right: this is the marked answer." : `Wrong: the marked answer is ${marked}.`, right ? "good" : "bad");
    }
  }
}
