import {count} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {type Column, folded, grouped, printable, table} from '../../cli/terminal-text.ts';
import {recordsView, storedTime} from '../views.ts';
import {checkHostRecords} from './check-records.ts';
import {withDnsStatus} from './cli.ts';
import {dmarcPeriod, firstDay} from './dmarc.ts';
import {hostLines} from './record-lines-cli.ts';
import {readTlsFailures, readTlsSums, type TlsSum} from './reports-store.ts';

export function tlsCommand(command: CliCommand): void {
	command
		.sample('mailctl tls --days 7')
		.option('--days <n>', 'number of days to show', count('--days', 1, dmarcPeriod.max), dmarcPeriod.default)
		.does<{days: number}>(async (session, {days}) => {
			const {returnPathDomain: host} = session.settings();
			const records = await withDnsStatus(session, (reader, names, open, now) =>
				checkHostRecords(reader, host, names, open, now),
			);
			const [reader, limit] = [await session.reader(), session.json ? 1000 : 20];
			const since = firstDay(days, session.tools.clock.now());
			const reported = await readTlsSums(reader, 'tls_report_days', {since, limit});
			const failures = await readTlsFailures(reader, since, limit);
			const counted = await readTlsSums(reader, 'tls_days', {since, limit});
			const {width} = session.terminal;
			const sums = (rows: readonly TlsSum[]) => (rows.length === 0 ? ['none'] : table(columns, rows, width));
			session.show({days, records: recordsView(records, storedTime), reported, failures, counted}, () => [
				`To your hosts since ${since}, as reported by others:`,
				...sums(reported),
				...failures.flatMap(({day, domain, org, failure}) =>
					folded(printable(`${day} ${domain}, ${org}: ${failure}`), width, '  '),
				),
				'',
				'To other hosts, as counted here:',
				...sums(counted),
				...hostLines(session, records),
			]);
		});
}

const columns: ReadonlyArray<Column<TlsSum>> = [
	{title: 'DOMAIN', cell: row => row.domain, cut: true},
	{title: 'HOST', cell: row => row.host, cut: true},
	{title: 'POLICY', cell: row => (row.policy === 'no-policy-found' ? null : row.policy)},
	{title: 'RESULT', cell: row => row.result},
	{title: 'CONNECTIONS', cell: row => `${grouped(row.count)} of ${grouped(row.total)}`, right: true},
];
