import type {Session} from '../../cli/session.ts';
import type {Tone} from '../../cli/terminal.ts';
import {cut, fields, printable, shortTime, table, wrapped} from '../../cli/terminal-text.ts';
import {type CheckedRecord, describePurpose, isUnsigned, missingProofs} from './check-records.ts';
import {type DomainRecord, returnPathHost} from './domain-records.ts';
import type {DkimKey, Domain} from './store.ts';
import {nextCheckAt} from './verify-domain.ts';

// How commands print a domain and the DNS records to publish.

/** Returns when the daemon queries DNS next, or `null` in capture mode, in which it does not. */
export function nextCheckOf(session: Session, row: Domain, keys: readonly DkimKey[]): string | null {
	return session.settings().delivery === 'capture' ? null : nextCheckAt(row, keys, session.tools.clock.now());
}

/** Formats a domain with the records to publish, without checking them. */
export function unqueriedLines(session: Session, row: Domain, records: readonly DomainRecord[]): string[] {
	return [
		...summaryLines(session, row, null),
		...(records.length > 0 ? ['', ...publishLines(row)] : []),
		...records.flatMap(record => ['', ...valueLines(session, record)]),
	];
}

/** Formats a domain with the DNS state of each record, and the values that still have to be published. */
export function checkedLines(
	session: Session,
	row: Domain,
	records: readonly CheckedRecord[],
	next: string | null,
	all = records,
): string[] {
	const listed = records.filter(({state, problem}) => state !== 'ok' || problem !== null);
	return [
		...summaryLines(session, row, next, isUnsigned(all)),
		'',
		...statusTable(session, records),
		...(listed.some(({ok}) => !ok) ? ['', ...publishLines(row)] : []),
		...alternativeLines(listed),
		...listed.flatMap(record => ['', ...detailLines(session, record)]),
	];
}

/** Like `checkedLines`, but only with the problems. */
export function problemLines(
	session: Session,
	row: Domain,
	records: readonly CheckedRecord[],
	next: string | null,
): string[] {
	const isProven = records.some(({purpose, key, ok}) => ok && purpose === 'dkim' && key?.state !== 'retired');
	const listed = records.filter(
		({purpose, state, problem}) =>
			(state !== 'ok' || problem !== null) && !(purpose === 'ownership' && state === 'missing' && isProven),
	);
	return listed.length > 0
		? checkedLines(session, row, listed, next, records)
		: [...summaryLines(session, row, next), '', 'DNS has all required records.'];
}

/** Explains that either of two records is enough to verify a domain. */
function alternativeLines(records: readonly CheckedRecord[]): string[] {
	const proofs = missingProofs(records);
	return proofs.length < 2
		? []
		: [
				'',
				'To verify the domain, publish either one (receivers require the DKIM record):',
				...proofs.map(({name}) => `  TXT ${name}`),
			];
}

function summaryLines(session: Session, row: Domain, next: string | null, lacksSignature = false): string[] {
	const returnPath = returnPathHost(row);
	const {returnPathDomain} = session.settings();
	const isUsed = row.return_path_at !== null || returnPath === returnPathDomain;
	const signed = lacksSignature && row.state === 'verified' ? ', not signed,' : '';
	const checked = row.checked_at === null ? 'never' : shortTime(row.checked_at);
	return fields([
		['id', row.id],
		['domain', row.name],
		['state', `${row.state}${signed} since ${shortTime(row.state_at)} UTC`],
		['checked', `${checked}${next === null ? '' : `, next ${shortTime(next)}`}`],
		['return path', isUsed ? returnPath : `${returnPath} (until DNS has it: ${returnPathDomain})`],
		...(row.link_host === null
			? []
			: ([
					[
						'links',
						row.links_ok_at === null ? `${row.link_host} once it resolves to this machine` : row.link_host,
					],
				] as const)),
	]);
}

function publishLines({name}: Domain): string[] {
	return [
		'Publish these records at the DNS provider of the domain; each value is a single',
		'line, however long. To print them as a zone file:',
		`  mailctl domain show ${name} --zone`,
	];
}

const tones = {ok: 'good', missing: 'bad', different: 'bad', unknown: 'doubtful'} as const satisfies Record<
	CheckedRecord['state'],
	Tone
>;

function statusTable({terminal}: Session, records: readonly CheckedRecord[]): string[] {
	const [title = '', ...lines] = table<CheckedRecord>(
		[
			{title: 'DNS', cell: ({state}) => state},
			{title: 'TYPE', cell: ({type}) => type},
			{title: 'NAME', cell: ({name}) => name, cut: true},
			{title: 'FOR', cell: describePurpose},
		],
		records,
		terminal.width,
	);
	const tinted = lines.map((line, index) => {
		const {state, required} = records[index] as CheckedRecord;
		const tone = tones[state] === 'bad' && !required ? 'doubtful' : tones[state];
		return terminal.tint(line.slice(0, state.length), tone) + line.slice(state.length);
	});
	return [title, ...tinted];
}

function headingLine({terminal}: Session, record: DomainRecord): string {
	return `${terminal.bold(`${record.type} ${printable(record.name)}`)}  (${describePurpose(record)})`;
}

/** Formats the value to publish and its note. A value that is not ready is not shown. */
function proposalLines({terminal}: Session, {value, note, ready}: DomainRecord): string[] {
	return [
		...(ready ? [printable(value)] : []),
		...(note === null ? [] : wrapped(`note: ${printable(note)}`, terminal.width, '  ')),
	];
}

function valueLines(session: Session, record: DomainRecord): string[] {
	return [headingLine(session, record), ...proposalLines(session, record)];
}

/** Formats the records of a host that receives mail and their problems; nothing if there are no records. */
export function hostLines(session: Session, records: readonly CheckedRecord[]): string[] {
	const details = records.filter(({ok}) => !ok).flatMap(record => ['', ...detailLines(session, record)]);
	return records.length === 0 ? [] : ['', ...statusTable(session, records), ...details];
}

function detailLines(session: Session, record: CheckedRecord): string[] {
	const {width} = session.terminal;
	const {state, problem, found, ok} = record;
	return [
		headingLine(session, record),
		...(state === 'missing' && problem === null
			? []
			: [cut(`  ${state}${problem === null ? '' : `: ${printable(problem)}`}`, width)]),
		...(ok ? [] : found.map(text => cut(`  found: ${printable(text)}`, width))),
		...(ok ? [] : proposalLines(session, record)),
	];
}
