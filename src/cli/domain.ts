import type {Command} from 'commander';
import {type DomainRecord, domainRecords} from '../admin/domain-records.ts';
import {addDomain} from '../admin/domains.ts';
import {generateSigningKeys} from '../compose/dkim-key.ts';
import {type DkimKey, listDkimKeys} from '../store/dkim-keys.ts';
import {type Domain, findDomain, listDomains} from '../store/domains.ts';
import {CliError} from './fault.ts';
import {domain as parseDomain} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {fields, table} from './table.ts';
import {printable, shortTime} from './text.ts';

export function domainCommands(domain: Command): void {
	verb(domain, 'add <domain>', 'Add a domain, with keys to sign its mail', 'mailctl domain add shop.example').action(
		action<object, [string]>(async (session, _options, text) => {
			const name = parseDomain(text);
			const {id: workspaceId} = await session.workspace();
			const keys = await generateSigningKeys();
			const vault = await session.vault();
			const added = await session.write(trx => addDomain(trx, session.tools, vault, {workspaceId, name, keys}));
			if (!added) {
				throw new CliError('data', `the domain ${name} is there already`, `see mailctl domain show ${name}`);
			}
			showDomain(session, added.domain, added.keys);
		}),
	);

	verb(domain, 'list', 'List domains, newest first', 'mailctl domain list').action(
		action(async session => {
			const {id} = await session.workspace();
			const reader = await session.reader();
			const rows = await listDomains(reader, id);
			session.show(rows.map(view), () =>
				table<Domain>(
					[
						{title: 'ID', cell: row => row.id},
						{title: 'DOMAIN', cell: row => row.name, cut: true},
						{title: 'STATE', cell: row => row.state},
						{title: 'CHECKED (UTC)', cell: row => shortTime(row.checked_at)},
					],
					rows,
					session.terminal.width,
				),
			);
		}),
	);

	verb(domain, 'show <domain>', 'Show the DNS records to publish', 'mailctl domain show shop.example').action(
		action<object, [string]>(async (session, _options, text) => {
			const name = parseDomain(text);
			const {id} = await session.workspace();
			const reader = await session.reader();
			const found = await findDomain(reader, id, name);
			if (!found) {
				throw new CliError('data', `there is no domain ${name}`, `add it with mailctl domain add ${name}`);
			}
			showDomain(session, found, await listDkimKeys(reader, [found.id]));
		}),
	);
}

function view(row: Domain) {
	return {
		id: row.id,
		name: row.name,
		verified: row.verified_at !== null,
		state: row.state,
		verified_at: row.verified_at,
		checked_at: row.checked_at,
		created_at: row.created_at,
	};
}

function showDomain(session: Session, row: Domain, keys: readonly DkimKey[]): void {
	const settings = session.settings();
	const records = domainRecords({
		domain: row,
		keys,
		bounceHost: settings.returnPathDomain,
		sourceAddresses: settings.sourceAddresses.map(({ip}) => ip),
	});
	session.show({...view(row), records}, () => [
		...fields([
			['id', row.id],
			['domain', row.name],
			['state', row.state],
		]),
		'',
		'Publish these records where the DNS of the domain is managed; each value is one',
		'line, however long. A zone file wants TXT in strings of at most 255 characters.',
		...records.flatMap(record => ['', heading(session, record), printable(record.value)]),
	]);
}

const purposes: Readonly<Record<DomainRecord['purpose'], string>> = {
	ownership: 'ownership',
	dkim: 'DKIM',
	return_path: 'return path',
	spf: 'SPF of the return path',
	dmarc: 'DMARC, where there is none',
};

function heading({terminal}: Session, {type, name, purpose, required}: DomainRecord): string {
	return `${terminal.bold(`${type} ${printable(name)}`)}  (${purposes[purpose]}${required ? '' : ', optional'})`;
}
