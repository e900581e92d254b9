import {Readable} from 'node:stream';
import test from 'ava';
import fc from 'fast-check';
import {CsvReader, csvLine} from '../../../src/kit/csv.ts';
import {parseAddress} from '../../../src/mail/address.ts';
import {type SuppressionReason, suppressionReasons} from '../../../src/mail/suppression.ts';
import {type Listed, readListed, SuppressionImport} from '../../../src/resources/suppressions/suppression-file.ts';
import {
	badColumns,
	exportedColumns,
	plainCells,
	readLayout,
} from '../../../src/resources/suppressions/suppression-layout.ts';
import {testTools} from '../../helpers/tools.ts';

const now = Date.UTC(2026, 5, 9, 10, 15, 30);

/** Returns the lines of a file as imported, as `address reason time` or the error. */
function read(file: string, reason?: SuppressionReason): string[] {
	const reader = new CsvReader();
	const rows = [...reader.push(file), ...reader.end()].map(record => ('cells' in record ? record.cells : []));
	const layout = readLayout(rows[0] ?? []);
	return rows.slice(layout.hasHeader ? 1 : 0).map(row => {
		const listed = readListed(plainCells(row, layout), layout.columns, {reason, now});
		return listed.ok ? line(listed) : listed.problem;
	});
}

function line({address, reason, createdAt, source}: Listed): string {
	const time = createdAt === null ? '-' : new Date(createdAt).toISOString().slice(0, 19);
	return [address.spelling, reason, time, ...(source === null ? [] : [source])].join(' ');
}

// The columns that these services document for their exports and imports.
const services: ReadonlyArray<
	readonly [service: string, file: string, expected: readonly string[], SuppressionReason?]
> = [
	[
		'SendGrid bounces',
		`status,reason,email,created
5.1.1,"550 5.1.1 The email account, that you tried to reach does not exist",a@x.test,1443651125
,"550 no such user",b@x.test,1443651125
4.2.2,452 mailbox full,c@x.test,1443651125
`,
		[
			'a@x.test hard_bounce 2015-09-30T22:12:05',
			'b@x.test hard_bounce 2015-09-30T22:12:05',
			'its bounce was temporary, so the address is not suppressed; --reason overrides this',
		],
	],
	[
		'SendGrid spam reports',
		'email,created,ip\na@x.test,1443651125,1.2.3.4\n',
		['a@x.test complaint 2015-09-30T22:12:05'],
		'complaint',
	],
	[
		'SendGrid invalid emails',
		'email,reason,created\na@x.test,Known bad domain,1443651125\n',
		['the reason "Known bad domain" is unknown; give one with --reason'],
	],
	[
		'Postmark',
		`EmailAddress,SuppressionReason,Origin,CreatedAt
a@x.test,HardBounce,Recipient,2019-12-17T08:58:33-05:00
b@x.test,SpamComplaint,Recipient,2019-12-17T08:58:33-05:00
c@x.test,ManualSuppression,Recipient,2019-12-17T08:58:33-05:00
d@x.test,ManualSuppression,Customer,2019-12-17T08:58:33-05:00
`,
		[
			'a@x.test hard_bounce 2019-12-17T13:58:33',
			'b@x.test complaint 2019-12-17T13:58:33',
			'c@x.test unsubscribe 2019-12-17T13:58:33',
			'd@x.test manual 2019-12-17T13:58:33',
		],
	],
	[
		'Mailgun bounces',
		'address,code,error,created_at\na@x.test,550,"No such mailbox, sorry","Fri, 21 Oct 2011 11:02:55 UTC"\n',
		['a@x.test hard_bounce 2011-10-21T11:02:55'],
	],
	[
		'Mailgun unsubscribes',
		'address,tags,created_at\na@x.test,*,"Fri, 21 Oct 2011 11:02:55 GMT"\n',
		['a@x.test unsubscribe 2011-10-21T11:02:55'],
	],
	[
		'Mailgun complaints',
		'address,created_at\na@x.test,"Fri, 21 Oct 2011 11:02:55 +0000"\n',
		['a@x.test complaint 2011-10-21T11:02:55'],
		'complaint',
	],
	[
		'SES, as its bulk import takes it',
		'a@x.test,BOUNCE\nb@x.test, COMPLAINT\n',
		['a@x.test hard_bounce -', 'b@x.test complaint -'],
	],
	[
		'SES, as its list is read',
		'EmailAddress,Reason,LastUpdateTime\na@x.test,BOUNCE,2020-04-10T21:03:05.180Z\n',
		['a@x.test hard_bounce 2020-04-10T21:03:05'],
	],
];

for (const [service, file, expected, reason] of services) {
	test(`reads a list exported by ${service}`, t => {
		t.deepEqual(read(file, reason), expected);
	});
}

test('reads columns with or without names, in any order and spelling', t => {
	for (const [file, expected] of [
		['a@x.test\nb@x.test', ['a@x.test manual -', 'b@x.test manual -']],
		['Email Address\r\na@x.test', ['a@x.test manual -']],
		['name;E-MAIL;created_at\nA;a@x.test;2026-01-02', ['a@x.test manual 2026-01-02T00:00:00']],
		['first,RECIPIENT\nb@x.test,a@x.test', ['a@x.test manual -']],
		['contact,since\na@x.test,2020', ['a@x.test manual -']],
		[
			'a@x.test,2020-01-02T03:04:05Z,complaint\nb@x.test,,',
			['a@x.test complaint 2020-01-02T03:04:05', 'b@x.test manual -'],
		],
		['email\n"jörg@bücher.example"\n A@x.test \n', ['jörg@bücher.example manual -', 'A@x.test manual -']],
	] as const) {
		t.deepEqual(read(file), [...expected], file);
	}
});

/** Returns what an import of a file adds, then its errors, or why the file is refused. */
async function imported(file: string, reason?: SuppressionReason): Promise<string[]> {
	const added: string[] = [];
	const reading = new SuppressionImport({
		acting: {...testTools(), clock: {now: () => now}},
		...{workspaceId: 'wsp_1', mode: 'live', reason},
		async write(entries) {
			added.push(...entries.map(entry => `${entry.address} ${entry.reason}`));
			return entries.length;
		},
	});
	const wrong = await reading.read(Readable.from([Buffer.from(file)]));
	const faults = reading.problems.map(({line: number, fault}) => `${number}: ${fault}`);
	return wrong ? [...added, wrong.problem] : [...added, ...faults];
}

const table = 'email;reason;created_at\na@x.test;complaint;2026-01-02\nb@x.test;hard_bounce;';
const listed = ['a@x.test complaint', 'b@x.test hard_bounce'];

for (const [what, before] of [
	['nothing', ''],
	['sep=', 'sep=;\r\n'],
	['sep= in quotes', '\ufeff"sep=;"\n'],
	['a title', 'Suppression list\n'],
	['a title with more delimiters than the header', 'Export, of 2026-01-02, for shop, Ltd, all\n\n'],
	['a title in a wide row', 'Suppressions;;\n;;\n'],
	['comments', '# exported 2026-01-02, by mailer\n# for admin@shop.example\n'],
	['a comment with slashes', '// contact:admin@shop.example\n'],
	['sep= and a title', 'sep=;\nSuppressed, all\n'],
	['a title of several lines', '"Suppressions\nof May"\n'],
] as const) {
	test(`reads a list with ${what} before the header`, async t => {
		t.deepEqual(await imported(before + table), listed);
		t.deepEqual(
			await imported(before + table.replace('email', 'E-Mail-Adresse')),
			listed,
			'a header of other words',
		);
	});
}

test('reports a line before the header that contains an address', async t => {
	t.deepEqual(await imported(`For admin@shop.example, May\n${table}`), [
		...listed,
		'1: the address must be a bare address such as name@example.com',
	]);
});

test('sep= sets the delimiter; without a table, the first line is the header', async t => {
	t.deepEqual(await imported('sep=|\nemail|reason\na@x.test|spam'), ['a@x.test complaint']);
	t.deepEqual(await imported('sep=\t\na@x.test\tComplaint'), ['a@x.test complaint']);
	t.is((await imported(`title\n${'x\n'.repeat(200)}`)).length, 100);
	t.deepEqual(await imported('title\n'), []);
});

test('imports no complaint as manual, whatever the column is called', async t => {
	for (const [file, expected] of [
		['email,type\na@x.test,Spam Complaint\nb@x.test,x', ['a@x.test complaint', 'b@x.test manual']],
		['email,status,reason\na@x.test,complained,', ['a@x.test complaint']],
		['a@x.test,\nb@x.test,complaint', ['a@x.test manual', 'b@x.test complaint']],
		['recipient,source,note\na@x.test,List Unsubscribe,spam', ['a@x.test complaint']],
		['email,source\na@x.test,Bounce Rule', ['a@x.test hard_bounce']],
	] as const) {
		t.deepEqual(await imported(file), [...expected], file);
	}
	const refused = ['seems to list complaints, but has no column "reason"'];
	for (const file of ['Spam reports\nemail,created\na@x.test,1443651125', 'email,complained_at\na@x.test,']) {
		t.deepEqual(await imported(file), refused, file);
		t.deepEqual(await imported(file, 'complaint'), ['a@x.test complaint'], file);
	}
});

test('reports the error of each line', t => {
	const faults = read(
		[
			'email,reason,created_at',
			',,',
			'Name <a@x.test>,,',
			'a@x.test,because,',
			'a@x.test,,yesterday',
			'a@x.test,,2026-02-30',
			'a@x.test,,2026-06-10',
			'a@x.test,,1969-12-31',
			'a@x.test,constructor,',
		].join('\n'),
	);
	t.deepEqual(faults, [
		'the address is missing',
		'the address must be a bare address such as name@example.com',
		'the reason "because" is unknown; give one with --reason',
		'"yesterday" is not a valid time (example: 2026-11-21T10:15:30Z)',
		'"2026-02-30" is not a valid time (example: 2026-11-21T10:15:30Z)',
		'the time 2026-06-10 is not between 1970 and now',
		'the time 1969-12-31 is not between 1970 and now',
		'the reason "constructor" is unknown; give one with --reason',
	]);
	t.deepEqual(
		read('email,reason\na@x.test,because\n', 'manual'),
		['a@x.test manual -'],
		'--reason holds for every line',
	);
});

const atom = fc.stringMatching(/^[a-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}$/);
const address = fc
	.tuple(
		fc.oneof(atom, fc.constantFrom("'=a", "=cmd|'x'", '+1', '-1', "'", "''+", 'jörg', "'-ü")),
		fc.constantFrom('x.test', 'bücher.example'),
	)
	.map(parts => parts.join('@'))
	.filter(text => parseAddress(text, {allowsUtf8Local: true}).ok);
const time = fc.integer({min: 0, max: now});
const source = fc.constantFrom('api', 'one-click', 'cli', 'import', 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n');
const entry = fc.tuple(address, fc.constantFrom(...suppressionReasons), source, time);

test('reads an export back unchanged', t => {
	fc.assert(
		fc.property(fc.array(entry, {minLength: 1, maxLength: 20}), entries => {
			const lines = entries.map(([recipient, reason, from, at]) =>
				csvLine(['sup_x', recipient, reason, from, new Date(at).toISOString()]),
			);
			t.deepEqual(
				read(csvLine(exportedColumns) + lines.join('')),
				entries.map(([recipient, reason, from, at]) =>
					[recipient, reason, new Date(at).toISOString().slice(0, 19), from].join(' '),
				),
			);
		}),
	);
});

test('imports the lines that an earlier import rejected, each with its original address', t => {
	fc.assert(
		fc.property(fc.array(address, {minLength: 1}), addresses => {
			const listed = addresses.map(each => `${each} manual -`);
			t.deepEqual(read(['email', ...addresses].join('\n')), listed);
			t.deepEqual(read(addresses.join('\n')), listed);
			const bad = addresses.map((each, index) => csvLine([index, 'the address is missing', each, 'x']));
			t.deepEqual(read(csvLine([...badColumns, 'email', 'name']) + bad.join('')), listed);
		}),
	);
});

test('accepts any line or rejects it with a one-sentence reason', t => {
	fc.assert(
		fc.property(fc.array(fc.string()), fc.array(fc.string()), (first, cells) => {
			const listed = readListed(cells, readLayout(first).columns, {reason: undefined, now});
			t.true(listed.ok || listed.problem.length > 10);
		}),
	);
});
