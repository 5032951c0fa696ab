// Starts the image twice on one volume, as a container runtime would: not as root, on a read-only root file system.
// `node deploy/image/prove.mjs [LAYOUT]`; without a layout it builds one. Ends with 2 if something is missing.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const START_MS_MAX = 60_000;
const UID = 10_001;

let failures = 0;
const work = mkdtempSync(join(tmpdir(), "berth-image-"));
try {
  process.exitCode = await main();
} finally {
  rmSync(work, { recursive: true, force: true });
}

async function main() {
  const missing = [
    !isHere("umoci") && "umoci",
    !isHere("runc") && "runc",
    process.getuid?.() !== 0 && "root",
  ].filter(Boolean);
  if (missing.length > 0) {
    console.error(`The image was not started. What is missing: ${missing.join(", ")}`);
    return 2;
  }
  const layout = resolve(process.argv[2] ?? (await built()));
  run("umoci", ["unpack", "--image", `${layout}:berth`, join(work, "bundle")]);
  const image = JSON.parse(readFileSync(join(work, "bundle", "config.json"), "utf8"));
  const volume = join(work, "volume");
  mkdirSync(volume, { mode: 0o700 });
  run("chown", [`${UID}:${UID}`, volume]);

  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = image.process.args.map((word) => (word === "0.0.0.0:7770" ? `127.0.0.1:${port}` : word));
  check("the image does not run as root", image.process.user.uid === UID);

  const first = await start(image, args, volume, url);
  check("it answers /readyz", true);
  const token = readFileSync(join(volume, "admin-token"), "utf8").trim();
  const made = await call(url, token, "POST", "/v1/pools", { name: "kept", capacity: { gpu: 2 } });
  check("it takes a pool", made.status === 201);
  const { uid, canWrite } = first.looks();
  check(`its process has uid ${uid}`, uid === UID);
  check("its root file system is read-only", !canWrite);
  await first.stop();

  const second = await start(image, args, volume, url);
  const kept = await call(url, token, "GET", "/v1/pools/kept");
  check("its data stay in the volume", kept.status === 200);
  await second.stop();
  console.log(failures === 0 ? "The image works." : `${failures} checks failed.`);
  return failures === 0 ? 0 : 1;
}

/** @returns {Promise<string>} */
async function built() {
  const layout = join(work, "layout");
  const { status } = spawnSync("sh", [join(here, "build.sh"), layout], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
  return layout;
}

async function start(image, args, volume, url) {
  const id = `berth-${process.pid}-${Date.now()}`;
  const bundle = bundleFor(image, args, volume);
  const child = spawn("runc", ["run", "--bundle", bundle, id], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  await ready(url, child);
  const pid = JSON.parse(spawnSync("runc", ["state", id], { encoding: "utf8" }).stdout).pid;
  return {
    looks: () => ({
      uid: Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]),
      canWrite: spawnSync("runc", ["exec", "--user", "0", id, "/usr/bin/touch", "/usr/here"]).status === 0,
    }),
    stop: async () => {
      const ended = new Promise((done) => child.once("exit", done));
      process.kill(pid, "SIGTERM");
      await ended;
    },
  };
}

/** The bundle with a read-only root, the network of this machine, and the volume. */
function bundleFor(image, args, volume) {
  const bundle = join(work, "bundle");
  const config = structuredClone(image);
  config.root = { path: "rootfs", readonly: true };
  config.process = { ...config.process, args, terminal: false, noNewPrivileges: true };
  config.process.capabilities = { bounding: [], effective: [], permitted: [] };
  config.linux.namespaces = config.linux.namespaces.filter(({ type }) => !["network", "user"].includes(type));
  delete config.linux.uidMappings;
  delete config.linux.gidMappings;
  // Whatever limits there are belong to the machine that runs this proof.
  delete config.linux.resources;
  const taken = new Set(["/var/lib/berth", "/tmp", "/sys/fs/cgroup"]);
  config.mounts = [
    ...config.mounts.filter(({ destination }) => !taken.has(destination)),
    { destination: "/var/lib/berth", type: "bind", source: volume, options: ["bind", "rw"] },
    { destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev", "mode=1777"] },
  ];
  writeFileSync(join(bundle, "config.json"), JSON.stringify(config));
  return bundle;
}

async function ready(url, child) {
  const end = Date.now() + START_MS_MAX;
  while (Date.now() < end) {
    if (child.exitCode !== null) break;
    const answer = await fetch(`${url}/readyz`).catch(() => undefined);
    if (answer?.ok) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  child.kill("SIGKILL");
  throw new Error(`The image did not become ready (exit code ${child.exitCode}).`);
}

async function call(url, token, method, path, body) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
}

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

function run(program, args) {
  const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}`);
}

function isHere(program) {
  const folders = (process.env.PATH ?? "").split(":");
  return folders.some((folder) => existsSync(join(folder, program)));
}

function check(what, holds) {
  if (!holds) failures += 1;
  console.log(`${holds ? "ok  " : "FAIL"}  ${what}`);
}
