import {addFieldOptions, readFieldOptions} from '../../cli/field-options.ts';
import {address as parseAddress} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import type {Noun} from '../../cli/terminal-text.ts';
import {listFields} from '../fields.ts';
import {notFound} from '../operation.ts';
import {senderView, storedTime} from '../views.ts';
import {sampleSender} from '../workspaces/sample.ts';
import {addSender, prepareKeys, removeSender, senderState, updateSender, verifySender} from './senders-rules.ts';
import {findSender, listSenders, type Sender} from './store.ts';

const nameFields = listFields(addSender.input).filter(({name}) => name === 'name');

export function senderCommands(sender: CliCommand): void {
	addFieldOptions(
		sender
			.verb('add <address>', 'Add a sender, and its domain if needed')
			.sample('mailctl sender add no-reply@shop.example --name Shop --verified'),
		nameFields,
	)
		.option('--verified', 'usable immediately, without DNS records')
		.does<{verified?: boolean}, [string]>(async (session, {verified = false, ...options}, text) => {
			const {domain} = parseAddress(text);
			const {reader, workspaceId} = await session.inWorkspace();
			const keys = await prepareKeys(reader, workspaceId, domain);
			const input = {address: text, ...readFieldOptions<{name?: string}>(nameFields, options)};
			showSender(session, await session.perform(addSender, {...input, verified, ...keys}));
		});

	sender
		.verb('list', 'List senders, newest first')
		.sample('mailctl sender list')
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(senders, await listSenders(reader, workspaceId));
		});

	const changeVerb = (verb: string, summary: string, change: (session: Session, id: string) => Promise<Sender>) =>
		sender
			.verb(`${verb} <address>`, summary)
			.sample(`mailctl sender ${verb} no-reply@shop.example`)
			.does<object, [string]>(async (session, _options, text) => {
				const {id} = await findNamed(session, text);
				showSender(session, await change(session, id));
			});
	changeVerb('verify', 'Mark a sender as verified, regardless of DNS', (session, id) =>
		session.perform(verifySender, {id}),
	);
	changeVerb('disable', 'Refuse sends from an address', (session, id) =>
		session.perform(updateSender, {id, active: false}),
	);
	changeVerb('enable', 'Accept sends from an address again', (session, id) =>
		session.perform(updateSender, {id, active: true}),
	);

	sender
		.verb('remove <address>', 'Remove a sender; its queued messages end as errored')
		.sample('mailctl sender remove no-reply@shop.example --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const {id} = await findNamed(session, text);
			await session.confirm(`Remove the sender ${text}? Its queued messages will not be sent.`, yes);
			await session.perform(removeSender, {id});
			session.show({address: text, removed: true}, () => [`removed ${text}`]);
		});
}

async function findNamed(session: Session, text: string): Promise<Sender> {
	const {key} = parseAddress(text);
	const {reader, workspaceId} = await session.inWorkspace();
	return (await findSender(reader, workspaceId, key)) ?? notFound('sender', text);
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
	session.printRow(senders, row, {lines: row.verified_at === null ? ['', publish] : []});
}
