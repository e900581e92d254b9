import type {Command} from 'commander';
import {explainCommand} from './bounce-explain.ts';
import {unmatchedCommand} from './bounce-unmatched.ts';

export function bounceCommands(bounce: Command): void {
	explainCommand(bounce);
	unmatchedCommand(bounce);
}
