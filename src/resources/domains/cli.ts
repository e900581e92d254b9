import type {Knex} from 'knex';
import {CliError} from '../../cli/fault.ts';
import {addFieldOptions, readFieldOptions} from '../../cli/field-options.ts';
import {acceptNone, count, domain as parseDomain, selector as parseSelector} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {fields, grouped, type Noun, printable, shortTime, table, wrapped} from '../../cli/terminal-text.ts';
import {generateSigningKeys} from '../../compose/dkim.ts';
import {storeTime} from '../../kit/time.ts';
import {openRecordSources} from '../../net/resolver.ts';
import {listFields} from '../fields.ts';
import type {InputOf} from '../operation.ts';
import {domainRecordsView, domainView, storedTime} from '../views.ts';
import {type CheckedRecord, isUnsigned, type OpenSources} from './check-records.ts';
import {createDmarcReview, type DmarcReview, dmarcPeriod, dmarcView, stepOf, tlsWords} from './dmarc.ts';
import {
	type DomainRecord,
	ownHosts,
	readDomainRecords,
	returnPathHost,
	type SendingNames,
	sendingNames,
	zoneFile,
} from './domain-records.ts';
import {checkedLines, nextCheckOf, problemLines, unqueriedLines} from './record-lines-cli.ts';
import {
	addDomain,
	cancelRotation,
	checkUnused,
	removeDomain,
	returnPathProblem,
	rotateKeys,
	updateDomain,
} from './rules.ts';
import {type DkimKey, type Domain, findDomain, listDkimKeys, listDomains} from './store.ts';
import {checkDomain, type DomainCheck, type DomainQuery, queryDomainRecords} from './verify-domain.ts';

const hostFields = listFields(addDomain.input).filter(({name}) => name !== 'name');
const updateFields = listFields(updateDomain.input)
	.filter(({name}) => name !== 'id')
	.map(field => ({...field, isRequired: true}));

export function domainCommands(domain: CliCommand): void {
	addFieldOptions(
		domain.verb('add <domain>', 'Add a domain and create its DKIM keys').sample('mailctl domain add shop.example'),
		hostFields,
		{return_path_domain: parseDomain, link_host: parseDomain},
	).does(add);

	addFieldOptions(
		domain
			.verb('update <domain>', 'Change the host of a domain’s links; the value none clears it')
			.sample('mailctl domain update shop.example --links links.shop.example'),
		updateFields,
		{link_host: acceptNone(parseDomain)},
	).does(update);

	domain.verb('list', 'List domains, newest first').sample('mailctl domain list').does(list);

	domain
		.verb('show <domain>', 'Show the DNS records to publish and what DNS returns now')
		.sample('mailctl domain show shop.example --zone')
		.option('--zone', 'print lines of a zone file, without querying DNS')
		.does(show);

	domain
		.verb('dmarc <domain>', 'Show who sends with a domain according to DMARC reports, and the next policy')
		.sample('mailctl domain dmarc shop.example --days 30')
		.option('--days <n>', 'number of days to show', count('--days', 1, dmarcPeriod.max), dmarcPeriod.default)
		.does(dmarc);

	domain
		.verb(
			'verify <domain>',
			'Check the DNS records now; exit 69 unless the domain is verified, 65 if no DKIM record is correct',
		)
		.sample('mailctl domain verify shop.example')
		.option('--ownership-only', 'exit 0 if a domain is verified without DKIM, so that its messages are unsigned')
		.does(verify);

	domain
		.verb('rotate-key <domain>', 'Create new DKIM keys; they are used once DNS has them')
		.sample('mailctl domain rotate-key shop.example')
		.option('--selector <name>', 'selector of the RSA key; the Ed25519 key gets the suffix -ed25519', parseSelector)
		.option('--cancel', 'cancel a rotation that is waiting for DNS')
		.does(rotateKey);

	domain
		.verb('remove <domain>', 'Remove a domain and its keys')
		.sample('mailctl domain remove shop.example --yes')
		.yesOption()
		.does(remove);
}

async function add(session: Session, options: object, text: string): Promise<void> {
	const name = parseDomain(text);
	const hosts = readFieldOptions<Omit<InputOf<typeof addDomain.input>, 'name'>>(hostFields, options);
	const {return_path_domain = null} = hosts;
	const problem = returnPathProblem(name, return_path_domain);
	if (problem !== null) {
		throw new CliError(
			'usage',
			`the return path is ${returnPathHost({name, return_path_domain})}`,
			`it ${problem}`,
		);
	}
	const extra = {keys: await generateSigningKeys(), ownHosts: ownHosts(session.settings())};
	const {domain, keys} = await session.perform(addDomain, {name, ...hosts, ...extra});
	await showUnqueried(session, domain, keys);
}

async function update(session: Session, options: object, text: string): Promise<void> {
	const {id} = await findNamed(session, text);
	const changes = readFieldOptions<{link_host: string | null}>(updateFields, options);
	const extra = {ownHosts: ownHosts(session.settings())};
	const {domain} = await session.perform(updateDomain, {id, ...changes, ...extra});
	await showUnqueried(session, domain, await listDkimKeys(await session.reader(), id), ['links']);
}

const domains: Noun<Domain> = {
	none: 'no domains; add one with mailctl domain add',
	json: row => domainView(row, storedTime),
	fields: [
		{title: 'ID', cell: row => row.id, id: true},
		{title: 'DOMAIN', cell: row => row.name, cut: true},
		{title: 'STATE', cell: row => row.state},
		{title: 'CHECKED (UTC)', cell: row => shortTime(row.checked_at)},
	],
};

async function list(session: Session): Promise<void> {
	const {reader, workspaceId} = await session.inWorkspace();
	session.list(domains, await listDomains(reader, workspaceId));
}

async function show(session: Session, {zone}: {zone?: boolean}, text: string): Promise<void> {
	const row = await findNamed(session, text);
	const reader = await session.reader();
	if (zone) {
		const keys = await listDkimKeys(reader, row.id);
		const records = await readRecords(session, row, keys);
		const lines = zoneFile(row.name, records, storeTime(session.tools.clock.now()));
		session.show({name: row.name, zone: lines.map(line => `${line}\n`).join('')}, () => lines);
		return;
	}
	await showChecked(session, await queryRecords(session, row));
}

async function verify(session: Session, {ownershipOnly}: {ownershipOnly?: boolean}, text: string): Promise<void> {
	const checked = await check(session, text);
	await showChecked(session, checked, problemLines);
	const {state, name} = checked.domain;
	if (state !== 'verified') {
		const proofs = checked.records.filter(
			({purpose, required}) => required && (purpose === 'ownership' || purpose === 'dkim'),
		);
		const fix = isSilent(proofs) ? dnsFix : 'publish one of them and verify again';
		throw new CliError('unavailable', `${name} is ${state}, not verified: ${listStates(proofs)}`, fix);
	}
	const keys = checked.records.filter(({purpose, key}) => purpose === 'dkim' && key?.state === 'active');
	if (!ownershipOnly && isUnsigned(checked.records)) {
		const problem = `${name} is verified, not signed: ${listStates(keys)}`;
		throw isSilent(keys)
			? new CliError('unavailable', problem, dnsFix)
			: new CliError('data', problem, 'publish one of them and verify again, or use --ownership-only');
	}
}

const dnsFix = 'check that DNS responds (MAILCTL_DNS_SERVERS)';
const isSilent = (records: readonly CheckedRecord[]) => records.every(({state}) => state === 'unknown');
const listStates = (records: readonly CheckedRecord[]) =>
	records.map(({name, state}) => `${name} is ${state}`).join(', ');

async function rotateKey(
	session: Session,
	{selector, cancel}: {selector?: string; cancel?: boolean},
	text: string,
): Promise<void> {
	const {id, name} = await findNamed(session, text);
	if (cancel) {
		const {selectors} = await session.perform(cancelRotation, {id});
		session.show({name, cancelled: selectors}, () => [`discarded the keys ${selectors.join(', ')} of ${name}`]);
		return;
	}
	const extra = {keys: await generateSigningKeys(), ...(selector !== undefined && {selector})};
	const {domain, keys} = await session.perform(rotateKeys, {id, ...extra});
	await showUnqueried(session, domain, keys, ['dkim']);
}

async function remove(session: Session, {yes}: {yes?: boolean}, text: string): Promise<void> {
	const row = await findNamed(session, text);
	await checkUnused(await session.reader(), row);
	await session.confirm(`Remove the domain ${row.name} with its keys? Messages in transit may fail DKIM.`, yes);
	await session.perform(removeDomain, {id: row.id});
	session.show({name: row.name, removed: true}, () => [`removed ${row.name}`]);
}

async function findNamed(session: Session, text: string): Promise<Domain> {
	const name = parseDomain(text);
	const {id} = await session.workspace();
	const row = await findDomain(await session.reader(), id, name);
	if (!row) {
		throw new CliError('data', `the domain ${name} does not exist`, `add it with mailctl domain add ${name}`);
	}
	return row;
}

async function readRecords(session: Session, row: Domain, keys: readonly DkimKey[]): Promise<DomainRecord[]> {
	const names = sendingNames(session.settings());
	return await readDomainRecords(await session.reader(), names, row, keys, session.tools.clock.now());
}

async function queryRecords(session: Session, row: Domain): Promise<DomainQuery> {
	return await withDnsStatus(session, (reader, names, open, now) =>
		queryDomainRecords(reader, row, names, open, now),
	);
}

/** Runs a check that queries DNS, with a status on the terminal meanwhile. */
export async function withDnsStatus<Result>(
	session: Session,
	runCheck: (reader: Knex, names: SendingNames, open: OpenSources, now: number) => Promise<Result>,
): Promise<Result> {
	const {dnsServers: servers, allowPrivateMx: allowPrivate} = session.settings();
	const {clock} = session.tools;
	session.terminal.status('querying DNS …');
	try {
		const open = () => openRecordSources({servers, allowPrivate, clock});
		return await runCheck(await session.reader(), sendingNames(session.settings()), open, clock.now());
	} finally {
		session.terminal.status(null);
	}
}

const maxListedSources = 20;

async function dmarc(session: Session, {days}: {days: number}, text: string): Promise<void> {
	const row = await findNamed(session, text);
	const {clock} = session.tools;
	const review = await withDnsStatus(session, (reader, names, openSources) =>
		createDmarcReview({reader, names, openSources, clock})(row, days),
	);
	session.show(dmarcView(review), () => dmarcLines(session, row, review));
}

function dmarcLines({terminal: {width}}: Session, row: Domain, review: DmarcReview): string[] {
	const {days, reports, reporters, sources, ips, unsigned, advice, tls} = review;
	const {policy, next, name, record, why} = advice;
	const [ours, others] = [grouped(advice.cost.ours), grouped(advice.cost.others)];
	const stopped = `would have stopped ${ours} of your messages, ${others} others in ${advice.days} days`;
	const rows = sources.slice(0, maxListedSources);
	const more = ips - rows.length;
	return [
		...fields(
			[
				['domain', row.name],
				[
					'reports',
					reports === 0 ? `none in ${days} days` : `${reports} in ${days} days, from ${reporters.join(', ')}`,
				],
				[
					'not signed',
					unsigned > 0 ? `reports of ${grouped(unsigned)} messages, which the advice ignores` : undefined,
				],
				['policy', policy],
				['stricter policy', reports > 0 ? stopped : undefined],
				['TLS to us', tlsWords(tls) ?? undefined],
			],
			width,
		),
		...(rows.length === 0 ? [] : ['', ...table(dmarcColumns, rows, width)]),
		...(more > 0 ? [`and ${grouped(more)} more`] : []),
		'',
		...wrapped(`${stepOf(advice)}: ${why}.`, width),
		...(next === null ? [] : ['', `TXT ${printable(name)}`, printable(record)]),
	];
}

type Source = DmarcReview['sources'][number];

const dmarcColumns = [
	{title: 'WHO', cell: ({ours}: Source) => (ours ? 'you' : 'others')},
	{title: 'ADDRESS', cell: ({ip}: Source) => ip},
	{title: 'MESSAGES', cell: ({n}: Source) => grouped(n), right: true},
	{title: 'ALIGNED', cell: ({aligned}: Source) => grouped(aligned), right: true},
	{title: 'WHY NOT', cell: ({why}: Source) => why, cut: true},
] as const;

async function check(session: Session, text: string): Promise<DomainCheck> {
	const checked = await checkDomain({
		find: () => findNamed(session, text),
		check: row => queryRecords(session, row),
		write: session.write,
		acting: session.tools,
	});
	if (checked === undefined || checked === 'busy') {
		throw new CliError('temporary', `too many checks of ${text} are running`, 'try again in a moment');
	}
	return checked;
}

async function showChecked(
	session: Session,
	{domain, records}: DomainQuery | DomainCheck,
	lines = checkedLines,
): Promise<void> {
	const next = nextCheckOf(session, domain, await listDkimKeys(await session.reader(), domain.id));
	session.show(domainRecordsView(domain, next, records, storedTime), () => lines(session, domain, records, next));
}

async function showUnqueried(
	session: Session,
	row: Domain,
	keys: readonly DkimKey[],
	purposes?: readonly string[],
): Promise<void> {
	const records = (await readRecords(session, row, keys)).filter(({purpose}) => purposes?.includes(purpose) ?? true);
	const view = domainRecordsView(row, null, records, storedTime);
	session.show({...domainView(row, storedTime), records: view.records}, () => unqueriedLines(session, row, records));
}
