const { Session, Memory } = await import(process.argv[1]);
const all = new Map(), [link, answers] = process.argv.slice(2);
const change = async (work) => {
  const { result, put } = work(all);
  for (const one of [put ?? []].flat()) all.set(one.id, one);
  return result;
};
const session = await Session.begin(link, { memory: new Memory({ change }) });
await session.prepare(JSON.parse(answers));
await session.send(); if (session.receipt === null) process.exit(1);
