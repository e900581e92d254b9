import {ConfigError} from '../config/config-error.ts';
import {doctorDefaults, inspect} from '../doctor/doctor.ts';
import type {Finding} from '../doctor/finding.ts';
import type {TimeServer} from '../doctor/machine.ts';
import {CliError, exitCodes} from './fault.ts';
import {domain} from './options.ts';
import {type CliCommand, version} from './program.ts';
import type {Session} from './session.ts';
import type {Terminal} from './terminal.ts';
import {printable, wrapped} from './terminal-text.ts';

type Options = {to?: string[]; timeServer?: TimeServer};

export function doctorCommand(command: CliCommand): void {
	command
		.sample('mailctl doctor --json')
		.option(
			'--to <domain...>',
			`connect to the mail servers of these domains (default: ${doctorDefaults.targets.join(' ')})`,
			collectDomains,
		)
		.option(
			'--time-server <host[:port]>',
			`compare the clock with this server (default: ${doctorDefaults.timeServer.host})`,
			parseTimeServer,
		)
		.does<Options>(async (session, options) => {
			const findings = await collectFindings(session, options);
			session.show(findings, () => [summary(findings)]);
			if (findings.some(({status}) => status === 'fail')) {
				process.exitCode = exitCodes.other;
			}
		});
}

async function collectFindings(session: Session, options: Options): Promise<Finding[]> {
	const {terminal} = session;
	const loaded = session.loadSettings();
	if (!loaded.ok) {
		throw new ConfigError(loaded.problems);
	}
	try {
		return await inspect(
			{
				settings: loaded.settings,
				version: version(),
				isReturnPathChosen: loaded.sources.returnPathDomain !== 'default',
				tools: session.tools,
				...(options.to && {targets: options.to}),
				...(options.timeServer && {timeServer: options.timeServer}),
			},
			{
				began: check => terminal.status(`checking ${check} …`),
				found(finding) {
					terminal.status(null);
					if (!session.json) {
						terminal.print(toLines(finding, terminal));
					}
				},
			},
		);
	} finally {
		terminal.status(null);
	}
}

const statusLabels = {ok: 'ok', warn: 'WARN', fail: 'FAIL'} as const;
const statusWidth = 6;
const checkWidth = 16;

/** Formats a finding: one line if all is well, otherwise with the reason and the fix below it. */
function toLines({check, status, detail, why, fix}: Finding, {width, bold}: Terminal): string[] {
	const head = `${statusLabels[status].padEnd(statusWidth)}${check.padEnd(checkWidth)}`;
	const indent = ' '.repeat(statusWidth + checkWidth);
	const styledHead = status === 'ok' ? head : bold(head);
	const details = wrapped(printable(detail), width, indent);
	// A name that fills its column gets a line of its own.
	const lines =
		check.length < checkWidth
			? [`${styledHead}${details[0]?.slice(indent.length)}`, ...details.slice(1)]
			: [styledHead, ...details];
	if (status === 'ok') {
		return lines;
	}
	const labeled = (label: string, text: string) =>
		wrapped(printable(text), width - indent.length - label.length).map(
			(line, index) => `${indent}${index === 0 ? label : ' '.repeat(label.length)}${line}`,
		);
	return [...lines, ...labeled('why: ', why), ...labeled('fix: ', fix)];
}

function summary(findings: readonly Finding[]): string {
	const count = (status: Finding['status']) => findings.filter(finding => finding.status === status).length;
	const plural = (n: number, noun: string) => `${n} ${noun}${n === 1 ? '' : 's'}`;
	return `\n${count('ok')} ok, ${plural(count('warn'), 'warning')}, ${plural(count('fail'), 'failure')}`;
}

function collectDomains(text: string, previous: string[] | undefined): string[] {
	return [...(previous ?? []), domain(text)];
}

function parseTimeServer(text: string): TimeServer {
	const [, bracketed, host = bracketed, port = '123'] =
		/^(?:\[([^\]]+)\]|([^:\s]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
	if (host === undefined || Number(port) < 1 || Number(port) > 65_535) {
		throw new CliError('usage', `--time-server "${text}" is not allowed`, 'use host or host:port');
	}
	return {host, port: Number(port)};
}
