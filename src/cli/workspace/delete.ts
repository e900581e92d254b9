import {setTimeout as sleep} from 'node:timers/promises';
import type {Command} from 'commander';
import {deleteWorkspace} from '../../admin/delete-workspace.ts';
import {capturedFolder, removeCaptured} from '../../deliver/local-delivery.ts';
import {hasWorkspace} from '../../store/workspaces.ts';
import {CliError} from '../fault.ts';
import {readDaemons} from '../open-store.ts';
import {yesVerb} from '../program.ts';
import {action, namedWorkspace, type Session} from '../session.ts';
import {createProgress} from '../terminal.ts';
import {grouped} from '../text.ts';

/** A daemon looks for changes of others every half second. */
const noticedMs = 1500;

export function deleteVerb(workspace: Command): void {
	yesVerb(
		workspace,
		'delete <workspace>',
		'Delete a workspace with all that is in it; refused while its mail waits',
		'mailctl workspace delete acme --yes',
	).action(action(remove));
}

/** Throws unavailable (69) while mail of the workspace waits. `--json`: `{"id","name","deleted":true,"messages"}`. */
async function remove(session: Session, {yes}: {yes?: boolean}, key: string): Promise<void> {
	const workspace = await namedWorkspace(await session.reader(), key);
	const {id, name} = workspace;
	const question = `Delete the workspace ${name} with its messages, templates, senders, keys and suppressions, for ever?`;
	await session.confirm(question, yes);
	const folder = capturedFolder(session.settings().dataDir);
	const {running} = await readDaemons(session);
	const progress = createProgress(session.terminal, session.tools.clock, 'messages');
	const deleted = await deleteWorkspace(
		{
			store: await session.store(),
			tools: session.tools,
			settled: async () => void (running && (await sleep(noticedMs))),
			removeCaptured: recipientIds => removeCaptured(folder, recipientIds),
			onStep: messages => progress.show(messages, null),
		},
		workspace,
	);
	progress.end();
	if (deleted.kind === 'waiting') {
		const drop = `mailctl queue drop --older-than 0s --workspace ${id} --yes`;
		const wrong = `${name} has mail in the queue (copies: ${grouped(deleted.recipients)})`;
		throw new CliError('unavailable', wrong, `wait until it is sent, or drop it with ${drop}`);
	}
	const isLast = !(await hasWorkspace(await session.reader()));
	session.show({id, name, deleted: true, messages: deleted.messages}, () => [
		`deleted ${name} with ${grouped(deleted.messages)} messages`,
		...(isLast ? ['It was the last one: the next start of the daemon makes a new workspace with new keys.'] : []),
	]);
}
