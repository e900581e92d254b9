import type {Reading, Report} from '../../src/mail/report.ts';
import type {ExpectedFile, ExpectedRow, Verdict} from './expected.ts';

/** What of a report tells whether it was read well. */
export type ReadReport = Pick<
	Report,
	| 'recipient'
	| 'originalRecipient'
	| 'action'
	| 'type'
	| 'suppresses'
	| 'category'
	| 'status'
	| 'code'
	| 'rule'
	| 'reason'
>;

/** A mail as it was read. */
export type ReadMail = {readonly kind: Reading['kind']; readonly reports: readonly ReadReport[]};

/** A row of a file beside what was read of it. */
export type ScoredRow = {
	readonly row: ExpectedRow;
	/** The report that names the row's recipient, and that no row before it took. */
	readonly report: ReadReport | null;
	readonly verdict: Verdict;
	readonly right: boolean;
};

export type ScoredFile = {
	readonly file: string;
	readonly kind: Reading['kind'];
	readonly rows: readonly ScoredRow[];
	/** Reports of addresses that no row names. */
	readonly others: readonly ReadReport[];
	readonly right: boolean;
};

/** Some of something, and the share that this is; nothing of nothing is none. */
export type Share = {readonly some: number; readonly of: number};

export type Figures = {
	readonly files: Share;
	/** Rows with an address that a report names. Automatic replies name nobody and are left out. */
	readonly recipientFound: Share;
	/** Soft rows that would suppress. */
	readonly falseSuppression: Share;
	/** Hard rows that are read as anything else. */
	readonly missedHard: Share;
	/** Rows that mean nothing, in files that would suppress or bounce. */
	readonly fromNone: Share;
	/** Complaints and unsubscribes read as such. */
	readonly complaints: Share;
	readonly unsubscribes: Share;
	/** Right files by family: the file's name without its number. */
	readonly families: ReadonlyMap<string, Share>;
};

export const percent = ({some, of}: Share): number => (of === 0 ? 0 : (100 * some) / of);

/** What a report asks for. A delay is a failure that may still pass. */
export function verdictOf(report: ReadReport): Verdict {
	switch (report.action) {
		case 'complaint':
		case 'unsubscribe':
			return report.action;
		case 'failed':
			return report.type === 'permanent' ? 'hard' : report.type === 'transient' ? 'soft' : 'none';
		case 'delayed':
			return 'soft';
		default:
			return 'none';
	}
}

/** Lays a reading beside what was expected of the file. */
export function scoreFile(expected: ExpectedFile, reading: ReadMail): ScoredFile {
	const left = [...reading.reports];
	const rows = expected.recipients.map(row => {
		const at = left.findIndex(report => names(report, row));
		const report = at === -1 ? null : (left.splice(at, 1)[0] as ReadReport);
		const verdict = report === null ? 'none' : verdictOf(report);
		const found = report !== null || row.recipient === null || row.expected === 'none';
		return {row, report, verdict, right: found && row.accept.includes(verdict)};
	});
	const surprising = left.some(report => report.suppresses);
	return {
		file: expected.file,
		kind: reading.kind,
		rows,
		others: left,
		right: rows.every(row => row.right) && !surprising,
	};
}

export function figuresOf(files: readonly ScoredFile[]): Figures {
	const rows = files.flatMap(({kind, rows, others}) => rows.map(row => ({...row, kind, others})));
	const of = (verdict: Verdict) => rows.filter(({row}) => row.expected === verdict);
	const share = (all: typeof rows, is: (row: (typeof rows)[number]) => boolean): Share => ({
		some: all.filter(is).length,
		of: all.length,
	});
	const suppresses = ({report, others}: (typeof rows)[number]) =>
		report === null ? others.some(other => other.suppresses) : report.suppresses;
	const named = rows.filter(({row, kind}) => row.recipient !== null && kind !== 'auto_reply' && kind !== 'other');
	const lost = rows.filter(({row, kind}) => row.recipient !== null && kind === 'other' && row.expected !== 'none');
	return {
		files: {some: files.filter(file => file.right).length, of: files.length},
		recipientFound: share([...named, ...lost], ({report}) => report !== null),
		falseSuppression: share(
			of('soft').filter(({row}) => !row.accept.includes('hard')),
			suppresses,
		),
		missedHard: share(of('hard'), ({row, verdict}) => !row.accept.includes(verdict)),
		fromNone: share(of('none'), row => suppresses(row) || row.verdict === 'hard'),
		complaints: share(of('complaint'), ({right}) => right),
		unsubscribes: share(of('unsubscribe'), ({right}) => right),
		families: familiesOf(files),
	};
}

/** What keeps a collection from being read well enough (the bars of R2.4), one line each. */
export function shortcomings(figures: Figures): string[] {
	const bars: Array<[boolean, string]> = [
		[
			figures.recipientFound.of === 0 || percent(figures.recipientFound) >= 97,
			`recipient found ${percentText(figures.recipientFound)}, at least 97 %`,
		],
		[
			percent(figures.falseSuppression) <= 3,
			`false suppression ${percentText(figures.falseSuppression)}, at most 3 %`,
		],
		[percent(figures.missedHard) <= 8, `missed hard ${percentText(figures.missedHard)}, at most 8 %`],
		[figures.fromNone.some === 0, `suppressions of none ${figures.fromNone.some}, not one`],
	];
	return [
		...bars.filter(([met]) => !met).map(([, text]) => text),
		...weakFamilies(figures).map(([family, share]) => `family ${family} ${percentText(share)}, at least 80 %`),
	];
}

/** Families of five files or more of which less than 80 % are right. */
function weakFamilies({families}: Figures): Array<[string, Share]> {
	return [...families].filter(([, share]) => share.of >= 5 && percent(share) < 80);
}

export const percentText = (share: Share): string => `${percent(share).toFixed(1)} % (${share.some} of ${share.of})`;

function names({recipient, originalRecipient}: ReadReport, row: ExpectedRow): boolean {
	if (row.recipient === null) {
		return true;
	}
	const read = [recipient, originalRecipient].map(address => address?.toLowerCase());
	return [row.recipient, row.original_recipient].some(
		address => address !== null && read.includes(address.toLowerCase()),
	);
}

function familiesOf(files: readonly ScoredFile[]): Map<string, Share> {
	const families = new Map<string, Share>();
	for (const {file, right} of files) {
		const family = file.replace(/-\d+\.[^.]*$/, '');
		const {some, of} = families.get(family) ?? {some: 0, of: 0};
		families.set(family, {some: some + (right ? 1 : 0), of: of + 1});
	}
	return families;
}
