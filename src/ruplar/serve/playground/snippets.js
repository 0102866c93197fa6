// A call made on this page → the same call as curl, as Python, and as a link to this page.

function extras(call) {
  const found = {};
  if (call.noise) found.noise = call.noise;
  found.include_reasoning = true;
  return found;
}

function request(call, info) {
  return {
    model: info.model,
    messages: [{ role: "user", content: call.question }],
    seed: call.seed,
    temperature: call.temperature,
    ...(call.samples > 1 ? { n: call.samples } : {}),
  };
}

// Single quotes end and begin again around one of their own: the only escape a POSIX shell needs.
function quoted(text) {
  return `'${text.replaceAll("'", `'"'"'`)}'`;
}

// A value as Python writes it; JSON differs in three words only.
function python(value, indent = 4) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map((item) => python(item)).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${python(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

export function asCurl(call, info, origin) {
  const body = JSON.stringify({ ...request(call, info), ...extras(call) }, null, 2);
  const key = info.needs_key ? `  -H "Authorization: Bearer $RUPLAR_API_KEY" \\\n` : "";
  return `curl ${origin}/v1/chat/completions \\\n${key}  -H "Content-Type: application/json" \\\n  -d ${quoted(body)}`;
}

export function asPython(call, info, origin) {
  const key = info.needs_key ? 'os.environ["RUPLAR_API_KEY"]' : '"none"';
  const lines = [
    ...(info.needs_key ? ["import os", ""] : []),
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${origin}/v1", api_key=${key})`,
    "reply = client.chat.completions.create(",
    ...Object.entries(request(call, info)).map(([name, value]) => `    ${name}=${python(value)},`),
    `    extra_body=${python(extras(call))},`,
    ")",
    "for choice in reply.choices:",
    "    print(choice.message.content, choice.message.reasoning)",
  ];
  return lines.join("\n");
}

const URL_PARAMS = { question: "q", samples: "samples", noise: "noise", temperature: "temperature", seed: "seed" };

export function asLink(call) {
  const found = new URLSearchParams();
  for (const [name, short] of Object.entries(URL_PARAMS)) {
    if (call[name] !== undefined) found.set(short, call[name]);
  }
  return `#${found}`;
}

export function fromLink(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const found = {};
  for (const [name, short] of Object.entries(URL_PARAMS)) {
    if (!given.has(short)) continue;
    const value = given.get(short);
    if (name === "question") found[name] = value;
    else if (value.trim() !== "" && Number.isFinite(Number(value))) found[name] = Number(value);
  }
  return found;
}
