import type {Command} from 'commander';
import {unmatchedCommand} from './bounce-unmatched.ts';

export function bounceCommands(bounce: Command): void {
	unmatchedCommand(bounce);
}
