import type {Command} from 'commander';
import {explainCommand} from './bounce-explain.ts';

export function bounceCommands(bounce: Command): void {
	explainCommand(bounce);
}
