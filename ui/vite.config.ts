// One file: the template with style and script in it, allowed by the script's hash (scripts/page.mjs).
import { defineConfig } from "vite";
import { page } from "./scripts/page.mjs";

export default defineConfig({
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
      input: "src/main.ts",
      output: { format: "iife", entryFileNames: "page.js", assetFileNames: "page[extname]" },
    },
  },
  plugins: [page()],
});
