import type {Command} from 'commander';
import {explainCommand} from './bounce-explain.ts';
import {ingestCommand} from './bounce-ingest.ts';
import {unmatchedCommand} from './bounce-unmatched.ts';

export function bounceCommands(bounce: Command): void {
	ingestCommand(bounce);
	explainCommand(bounce);
	unmatchedCommand(bounce);
}
