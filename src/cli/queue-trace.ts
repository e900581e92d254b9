import type {Command} from 'commander';
export function traceVerb(_queue: Command): void {}
