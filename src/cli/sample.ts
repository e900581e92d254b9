import type {Command} from 'commander';
import {removeSample, sampleSender, sampleTemplate} from '../admin/sample.ts';
import {sampleDomain} from '../domains/domains.ts';
import {yesVerb} from './program.ts';
import {action, type Session} from './session.ts';

export function sampleCommands(sample: Command): void {
	yesVerb(
		sample,
		'remove',
		'Remove the sample sender, its domain and the sample template, where you have not changed it',
		'mailctl sample remove --yes',
	).action(action<{yes?: boolean}, []>(remove));
}

async function remove(session: Session, {yes}: {yes?: boolean}): Promise<void> {
	const {id} = await session.workspace();
	const question = `Remove the sample: ${sampleSender} and the template ${sampleTemplate}? Mail of theirs that waits is not sent.`;
	await session.confirm(question, yes);
	const removed = await session.write(trx => removeSample(trx, session.tools, id));
	const names = [
		removed.sender && `the sender ${sampleSender}`,
		removed.domain && `the domain ${sampleDomain}`,
		removed.template && `the template ${sampleTemplate}`,
	].filter(name => name !== false);
	session.show(removed, () => [names.length === 0 ? 'there is no sample here' : `removed ${names.join(', ')}`]);
}
