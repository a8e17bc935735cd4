// Copies what the console's pages load from node_modules into console/static/console/vendor/, and
// nothing else. The result is the same byte for byte on every machine.
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "console", "static", "console", "vendor");

const files = [
  "@tabler/core/dist/css/tabler.min.css",
  "htmx.org/dist/htmx.min.js",
];

// The maps are not copied: a reference to one makes collectstatic fail under hashed names.
const mapReference = /\n?(\/\/|\/\*)# sourceMappingURL=\S+?( ?\*\/)?\s*$/;

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
for (const file of files) {
  const text = await readFile(join(here, "node_modules", file), "utf8");
  await writeFile(join(target, basename(file)), text.replace(mapReference, "\n"));
}
