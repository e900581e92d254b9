import {randomBytes} from 'node:crypto';
import {existsSync} from 'node:fs';
import type {Command} from 'commander';
import {ConfigError} from '../config/config-error.ts';
import {secretsFile} from '../config/secrets-file.ts';
import type {Settings} from '../config/settings.ts';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import {secretsOf} from '../data-folder/ensure-secrets.ts';
import {openRecordSources} from '../dns/record-sources.ts';
import {createResolver} from '../dns/resolver.ts';
import type {TimeServer} from '../doctor/clock.ts';
import {checksFor} from '../doctor/doctor.ts';
import {examine, type Finding} from '../doctor/finding.ts';
import {publicInterfaceAddresses} from '../doctor/names.ts';
import {type OpenedStore, openForDoctor} from '../doctor/store.ts';
import {createLinks} from '../links/links.ts';
import {CliError, exitCodes} from './fault.ts';
import {domain} from './options.ts';
import {example, version} from './program.ts';
import {action, type Session} from './session.ts';
import type {Terminal} from './terminal.ts';
import {printable, wrapped} from './text.ts';

type Options = {to?: string[]; blocklist?: string[]; timeServer?: TimeServer};

const usualTargets = ['gmail.com', 'outlook.com'];
const usualTimeServer: TimeServer = {host: 'pool.ntp.org', port: 123};
const usualBlocklists = ['zen.spamhaus.org'];

const dnsTimeoutMs = 5000;

export function doctorCommand(command: Command): void {
	example(command, 'mailctl doctor --json')
		.option('--to <domain...>', `greet the mail hosts of these domains (default: ${usualTargets.join(' ')})`, domains)
		.option('--blocklist <zone...>', `ask these blocklists (default: ${usualBlocklists.join(' ')})`, domains)
		.option(
			'--time-server <host[:port]>',
			`compare the clock with this one (default: ${usualTimeServer.host})`,
			timeServer,
		)
		.action(
			action<Options, []>(async (session, options) => {
				const findings = await findingsOf(session, options);
				session.show(findings, () => [summary(findings)]);
				if (findings.some(({status}) => status === 'fail')) {
					process.exitCode = exitCodes.other;
				}
			}),
		);
}

async function findingsOf(session: Session, options: Options): Promise<Finding[]> {
	const {terminal} = session;
	const loaded = session.loadSettings();
	if (!loaded.ok) {
		throw new ConfigError(loaded.problems);
	}
	const {settings, sources} = loaded;
	const resolver = createResolver({
		servers: settings.dnsServers,
		timeoutMs: dnsTimeoutMs,
		tries: 1,
		clock: session.tools.clock,
	});
	const store = await openForDoctor(settings);
	try {
		const checks = checksFor({
			settings,
			version: version(),
			returnPathChosen: sources.returnPathDomain !== 'default',
			resolver,
			clock: session.tools.clock,
			store,
			daemon: settings.databaseUrl === null ? liveDaemon(settings.dataDir) : null,
			selfToken: await selfToken(session, settings, store),
			interfaceAddresses: publicInterfaceAddresses(),
			targets: options.to ?? usualTargets,
			blocklists: options.blocklist ?? usualBlocklists,
			timeServer: options.timeServer ?? usualTimeServer,
			openSources: () =>
				openRecordSources({
					servers: settings.dnsServers,
					allowPrivate: settings.allowPrivateMx,
					clock: session.tools.clock,
				}),
		});
		return await examine(checks, {
			began: check => terminal.status(`checking ${check} …`),
			found(finding) {
				terminal.status(null);
				if (!session.json) {
					terminal.print(linesOf(finding, terminal));
				}
			},
		});
	} finally {
		terminal.status(null);
		await store.store?.close();
	}
}

/** The return path of a copy that does not exist; null where no secrets are there yet: none are made to look. */
async function selfToken({tools}: Session, settings: Settings, {store}: OpenedStore): Promise<string | null> {
	if (store === null || (settings.databaseUrl === null && !existsSync(secretsFile(settings.dataDir)))) {
		return null;
	}
	const keys = await secretsOf(store, settings);
	const links = createLinks({keys, publicUrl: '', random: randomBytes});
	return links.returnPathLocal(tools.newId('rcp'), `postmaster@${settings.returnPathDomain}`);
}

const words = {ok: 'ok', warn: 'WARN', fail: 'FAIL'} as const;
const statusColumns = 6;
const checkColumns = 16;

/** One finding: a line where all is well, with the reason and the mend below where it is not. */
function linesOf({check, status, detail, why, fix}: Finding, {width, bold}: Terminal): string[] {
	const head = `${words[status].padEnd(statusColumns)}${check.padEnd(checkColumns)}`;
	const indent = ' '.repeat(head.length);
	const [first = '', ...rest] = wrapped(printable(detail), width - head.length);
	const lines = [`${status === 'ok' ? head : bold(head)}${first}`, ...rest.map(line => `${indent}${line}`)];
	if (status === 'ok') {
		return lines;
	}
	const labelled = (label: string, text: string) =>
		wrapped(printable(text), width - indent.length - label.length).map(
			(line, n) => `${indent}${n === 0 ? label : ' '.repeat(label.length)}${line}`,
		);
	return [...lines, ...labelled('why: ', why), ...labelled('fix: ', fix)];
}

function summary(findings: readonly Finding[]): string {
	const count = (status: Finding['status']) => findings.filter(one => one.status === status).length;
	const plural = (n: number, word: string) => `${n} ${word}${n === 1 ? '' : 's'}`;
	return `\n${count('ok')} ok, ${plural(count('warn'), 'warning')}, ${plural(count('fail'), 'failure')}`;
}

function domains(text: string, before: string[] | undefined): string[] {
	return [...(before ?? []), domain(text)];
}

function timeServer(text: string): TimeServer {
	const [, bracketed, host = bracketed, port = '123'] = /^(?:\[([^\]]+)\]|([^:\s]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
	if (host === undefined || Number(port) < 1 || Number(port) > 65_535) {
		throw new CliError('usage', `--time-server "${text}" is not allowed`, 'use host or host:port');
	}
	return {host, port: Number(port)};
}
