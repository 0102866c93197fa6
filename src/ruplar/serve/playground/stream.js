// A question and its settings → the server's events, one by one; a failure → an Error with its reason.

const RETRY = "Check that `ruplar serve` is still running, then ask again.";

export class Refused extends Error {
  constructor(message, { status = 0, type = "", retry = null } = {}) {
    super(message);
    this.status = status;
    this.type = type;
    this.retry = retry;
  }
}

async function refusal(response) {
  let detail = {};
  try {
    detail = (await response.json()).error ?? {};
  } catch {
    // not JSON: use the status
  }
  const retry = response.headers.get("Retry-After");
  return new Refused(detail.message || `the server answered ${response.status} ${response.statusText}`, {
    status: response.status,
    type: detail.type,
    retry,
  });
}

// fetch, with words for a server that does not answer at all; from the origin, as the page's own address may hold a password
async function reach(path, options) {
  try {
    return await fetch(new URL(path, location.origin), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(`The server cannot be reached. ${RETRY}`);
  }
}

export async function info() {
  const response = await reach("/api/info");
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// One block of text between blank lines → { event, data }; null for a comment that only keeps the line open.
export function parse(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trim());
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}

export async function* think(model, call, signal) {
  const { question, samples, ...settings } = call;
  const response = await reach("/api/think", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, prompt: question, n: samples, include_reasoning: true, ...settings }),
    signal,
  });
  if (!response.ok) throw await refusal(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  let ended = false;
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Refused(`The connection to the server was lost before the answer was complete. ${RETRY}`);
    });
    if (done) break;
    waiting += value.replaceAll("\r", "");
    let cut;
    while ((cut = waiting.indexOf("\n\n")) >= 0) {
      const found = parse(waiting.slice(0, cut));
      waiting = waiting.slice(cut + 2);
      if (!found) continue;
      if (found.event === "error") throw new Refused(found.data.message, { type: found.data.type });
      ended = found.event === "done";
      yield found;
    }
  }
  if (!ended) throw new Refused(`The server closed the connection before the answer was complete. ${RETRY}`);
}
