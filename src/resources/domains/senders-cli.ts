import {CliError} from '../../cli/fault.ts';
import {label, address as parseAddress} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import type {Noun} from '../../cli/terminal-text.ts';
import {notFound} from '../operation.ts';
import {senderView, storedTime} from '../views.ts';
import {sampleSender} from '../workspaces/sample.ts';
import {addSender, changeSender, prepareKeys, removeSender, senderState} from './senders.ts';
import {listSenders, type Sender} from './store.ts';

export function senderCommands(sender: CliCommand): void {
	sender
		.verb('add <address>', 'Add a sender, and its domain if needed')
		.sample('mailctl sender add no-reply@shop.example --name Shop --verified')
		.option('--name <name>', 'display name in From', label('--name'))
		.option('--verified', 'usable immediately, without DNS records')
		.does<{name?: string; verified?: boolean}, [string]>(async (session, options, text) => {
			const address = parseAddress(text);
			const {id: workspaceId} = await session.workspace();
			const newKeys = await prepareKeys(await session.reader(), workspaceId, address.domain);
			const vault = await session.vault();
			const added = await session.write(trx =>
				addSender(trx, session.tools, vault, {
					workspaceId,
					address,
					name: options.name ?? null,
					verified: options.verified ?? false,
					newKeys,
				}),
			);
			if (!added) {
				throw new CliError('data', `the sender ${text} already exists`, 'see mailctl sender list');
			}
			showSender(session, added);
		});

	sender
		.verb('list', 'List senders, newest first')
		.sample('mailctl sender list')
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(senders, await listSenders(reader, workspaceId));
		});

	for (const [change, about] of [
		['verify', 'Mark a sender as verified, regardless of DNS'],
		['disable', 'Refuse sends from an address'],
		['enable', 'Accept sends from an address again'],
	] as const) {
		sender
			.verb(`${change} <address>`, about)
			.sample(`mailctl sender ${change} no-reply@shop.example`)
			.does<object, [string]>(async (session, _options, text) => {
				const {key} = parseAddress(text);
				const {id} = await session.workspace();
				const changed = await session.write(trx => changeSender(trx, session.tools, id, key, change));
				showSender(session, changed ?? notFound('sender', text));
			});
	}

	sender
		.verb('remove <address>', 'Remove a sender; its queued messages end as errored')
		.sample('mailctl sender remove no-reply@shop.example --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const {key} = parseAddress(text);
			const {id} = await session.workspace();
			await session.confirm(`Remove the sender ${text}? Its queued messages will not be sent.`, yes);
			if (!(await session.write(trx => removeSender(trx, session.tools, id, {addressKey: key})))) {
				notFound('sender', text);
			}
			session.show({address: text, removed: true}, () => [`removed ${text}`]);
		});
}

const senders: Noun<Sender> = {
	none: 'no senders; add one with mailctl sender add',
	json: row => senderView(row, storedTime),
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'ADDRESS', name: 'address', cell: row => row.address, cut: true},
		{
			title: 'NAME',
			name: 'name',
			cell: row => row.name ?? (row.address === sampleSender ? '(sample)' : null),
			cut: true,
		},
		{title: 'STATE', name: 'state', cell: senderState},
	],
};

function showSender(session: Session, row: Sender): void {
	const publish = `Publish the records of its domain: mailctl domain show ${row.address.split('@')[1]}`;
	session.one(senders, row, {lines: row.verified_at === null ? ['', publish] : []});
}
