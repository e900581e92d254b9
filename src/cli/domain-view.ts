import type {CheckedRecord} from '../domains/check-records.ts';
import {type DomainRecord, returnPathHost} from '../domains/domain-records.ts';
import {nextCheckAt} from '../domains/domain-state.ts';
import {isUnsigned, openProofs, purposeOf} from '../domains/record-words.ts';
import type {DkimKey, Domain} from '../store/domains.ts';
import type {Session} from './session.ts';
import type {Tone} from './terminal.ts';
import {cut, fields, printable, shortTime, table, wrapped} from './text.ts';

/** When the daemon asks DNS again; null: it does not while nothing leaves the machine. */
export function nextCheckOf(session: Session, row: Domain, keys: readonly DkimKey[]): string | null {
	return session.settings().delivery === 'capture' ? null : nextCheckAt(row, keys, session.tools.clock.now());
}

/** A domain with its records to publish, which were not looked for. */
export function unaskedLines(session: Session, row: Domain, records: readonly DomainRecord[]): string[] {
	return [
		...head(session, row, null),
		'',
		...publish(row),
		...records.flatMap(each => ['', ...valueLines(session, each)]),
	];
}

/** A domain with what DNS answers for each record; values only of what is still to be published. */
export function checkedLines(
	session: Session,
	row: Domain,
	records: readonly CheckedRecord[],
	next: string | null,
	all = records,
): string[] {
	const remarkable = records.filter(({state, problem}) => state !== 'ok' || problem !== null);
	return [
		...head(session, row, next, isUnsigned(all)),
		'',
		...statusTable(session, records),
		...(remarkable.some(({ok}) => !ok) ? ['', ...publish(row)] : []),
		...eitherOf(remarkable),
		...remarkable.flatMap(record => ['', ...detailLines(session, record)]),
	];
}

/** The same with nothing but what is wrong. */
export function wrongLines(
	session: Session,
	row: Domain,
	records: readonly CheckedRecord[],
	next: string | null,
): string[] {
	const isProven = records.some(({purpose, key, ok}) => ok && purpose === 'dkim' && key?.state !== 'retired');
	const wrong = records.filter(
		({purpose, state, problem}) =>
			(state !== 'ok' || problem !== null) && !(purpose === 'ownership' && state === 'missing' && isProven),
	);
	return wrong.length > 0
		? checkedLines(session, row, wrong, next, records)
		: [...head(session, row, next), '', 'DNS shows every record that is needed.'];
}

/** Of two records that verify a domain one is enough. */
function eitherOf(records: readonly CheckedRecord[]): string[] {
	const proofs = openProofs(records);
	return proofs.length < 2
		? []
		: [
				'',
				'To verify the domain, publish either of these (receivers want the DKIM record):',
				...proofs.map(({name}) => `  TXT ${name}`),
			];
}

function head(session: Session, row: Domain, next: string | null, unsigned = false): string[] {
	const own = returnPathHost(row);
	const {returnPathDomain} = session.settings();
	return fields([
		['id', row.id],
		['domain', row.name],
		[
			'state',
			`${row.state}${unsigned && row.state === 'verified' ? ', not signed,' : ''} since ${shortTime(row.state_at)} UTC`,
		],
		[
			'checked',
			`${row.checked_at === null ? 'never' : shortTime(row.checked_at)}${next === null ? '' : `, next ${shortTime(next)}`}`,
		],
		['return path', row.return_path_at === null ? `${returnPathDomain}, its own once DNS shows MX and SPF` : own],
	]);
}

function publish({name}: Domain): string[] {
	return [
		'Publish these records where the DNS of the domain is managed; each value is one',
		'line, however long. As lines of a zone file:',
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
			{title: 'FOR', cell: purposeOf},
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

function heading({terminal}: Session, record: DomainRecord): string {
	return `${terminal.bold(`${record.type} ${printable(record.name)}`)}  (${purposeOf(record)})`;
}

/** The value to publish, and what to know of it; a value that is not for others is not shown. */
function proposal({terminal}: Session, {value, note, ready}: DomainRecord): string[] {
	return [
		...(ready ? [printable(value)] : []),
		...(note === null ? [] : wrapped(`note: ${printable(note)}`, terminal.width, '  ')),
	];
}

function valueLines(session: Session, record: DomainRecord): string[] {
	return [heading(session, record), ...proposal(session, record)];
}

function detailLines(session: Session, record: CheckedRecord): string[] {
	const {width} = session.terminal;
	const {state, problem, found, ok} = record;
	return [
		heading(session, record),
		...(state === 'missing' && problem === null
			? []
			: [cut(`  ${state}${problem === null ? '' : `: ${printable(problem)}`}`, width)]),
		...(ok ? [] : found.map(text => cut(`  found: ${printable(text)}`, width))),
		...(ok ? [] : proposal(session, record)),
	];
}
