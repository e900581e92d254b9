import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {sampleDomain} from '../domains/rules.ts';
import {removeSample, sampleSender, sampleTemplate} from './sample.ts';

export function sampleCommands(sample: CliCommand): void {
	sample
		.verb('remove', 'Remove the sample sender, its domain and the unchanged sample template')
		.sample('mailctl sample remove --yes')
		.yesOption()
		.does<{yes?: boolean}>(remove);
}

async function remove(session: Session, {yes}: {yes?: boolean}): Promise<void> {
	await session.workspace();
	const question = `Remove the sample: ${sampleSender} and the template ${sampleTemplate}? Their waiting messages will not be sent.`;
	await session.confirm(question, yes);
	const removed = await session.perform(removeSample, {});
	const names = [
		removed.sender && `the sender ${sampleSender}`,
		removed.domain && `the domain ${sampleDomain}`,
		removed.template && `the template ${sampleTemplate}`,
	].filter(name => name !== false);
	session.show(removed, () => [names.length === 0 ? 'no sample found' : `removed ${names.join(', ')}`]);
}
