import {CliError} from '../../cli/fault.ts';
import type {CliCommand} from '../../cli/program.ts';
import {openResolver, type Session} from '../../cli/session.ts';
import {type Noun, shortTime} from '../../cli/terminal-text.ts';
import {inboundMx} from '../../doctor/inbound-mx.ts';
import {domainOf, parseDomain} from '../../mail/address.ts';
import {checkHostRecords} from '../domains/check-records.ts';
import {withDnsStatus} from '../domains/cli.ts';
import {sendingNames} from '../domains/domain-records.ts';
import {hostLines} from '../domains/record-lines-cli.ts';
import {inboundView, recordsView, storedTime} from '../views.ts';
import {addInbound, checkNotOurs, removeInbound} from './rules.ts';
import {type InboundAddress, listInboundAddresses} from './store.ts';

export function inboundCommands(inbound: CliCommand): void {
	inbound
		.verb('add <address>', 'Receive mail at an address, or at all addresses of a domain with *@')
		.sample('mailctl inbound add support@in.shop.example')
		.does<object, [string]>(async (session, _options, text) => {
			const {hostname, returnPathDomain} = session.settings();
			checkNotOurs(text, [hostname, returnPathDomain]);
			await showInbound(session, await session.perform(addInbound, {address: text}));
		});

	inbound
		.verb('list', 'List addresses, newest first')
		.sample('mailctl inbound list')
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(inboxes, await listInboundAddresses(reader, workspaceId));
		});

	inbound
		.verb('show <address>', 'Show an address, and whether its mail reaches this machine')
		.sample('mailctl inbound show support@in.shop.example')
		.does<object, [string]>(
			async (session, _options, text) => await showInbound(session, await findInbound(session, text)),
		);

	inbound
		.verb('remove <address>', 'Stop receiving mail at an address; received messages stay')
		.sample('mailctl inbound remove support@in.shop.example --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const row = await findInbound(session, text);
			await session.confirm(`Remove ${row.address}? Mail to it will be refused.`, yes);
			await session.perform(removeInbound, {id: row.id});
			session.show({...inboundView(row, storedTime), removed: true}, () => [`removed ${row.address}`]);
		});
}

async function findInbound(session: Session, text: string): Promise<InboundAddress> {
	const {reader, workspaceId} = await session.inWorkspace();
	const all = await listInboundAddresses(reader, workspaceId);
	const domain = parseDomain(domainOf(text)) ?? '';
	const address = `${text.slice(0, text.lastIndexOf('@') + 1)}${domain}`.toLowerCase();
	const row = all.find(inbox => inbox.id === text || inbox.address === address);
	if (row === undefined) {
		throw new CliError('data', `inbound address ${text} not found`, 'see mailctl inbound list');
	}
	return row;
}

async function showInbound(session: Session, row: InboundAddress): Promise<void> {
	const settings = session.settings();
	const {status, detail, fix} = await inboundMx(openResolver(session), domainOf(row.address), sendingNames(settings));
	const records = await withDnsStatus(session, (reader, ...by) =>
		checkHostRecords(reader, domainOf(row.address), ...by),
	);
	const lines = [
		`mx       ${status}: ${detail}`,
		...(fix === '' ? [] : [`         ${fix}`]),
		...hostLines(session, records),
	];
	session.printRow(inboxes, row, {
		json: {mx: {status, detail, fix}, records: recordsView(records, storedTime)},
		lines,
	});
}

const inboxes: Noun<InboundAddress> = {
	none: 'no addresses; add one with mailctl inbound add',
	json: row => inboundView(row, storedTime),
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'ADDRESS', name: 'address', cell: row => row.address},
		{name: 'since', cell: row => `${shortTime(row.created_at)} UTC`},
	],
};
