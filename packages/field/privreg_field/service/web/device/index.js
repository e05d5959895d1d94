/**
 * The device of a study in the field: one person's answers in, one randomised report out. See README.md.
 * @module
 */

export { read, unread } from "./answer.js";
export { Memory, IndexedStore, StoreError } from "./memory.js";
export { RefusedError, Session } from "./session.js";
