import {createSecureContext} from 'node:tls';
import {readSettingFile} from '../kit/regular-file.ts';
import {blocklistsProblems} from './blocklists-file.ts';
import {bounceRulesProblems} from './bounce-rules.ts';
import {implicitTlsPort, isLoopback, isMailable, publicHost} from './derive.ts';
import {destinationsProblems} from './destinations-file.ts';
import {type SettingKey, type TableValues, table} from './table.ts';

/** A rule across several settings, checked only if each of them could be parsed. */
type Rule = {
	readonly needs: readonly SettingKey[];
	readonly problem: (values: TableValues) => string | readonly string[] | undefined;
	/** Whether commands beside the daemon ignore the rule, so that a problem does not lock out the operator. */
	readonly daemonOnly?: true;
};

const certificates = [
	['inboundTlsCert', 'inboundTlsKey'],
	['submissionTlsCert', 'submissionTlsKey'],
] as const;
const files = ['webhookCaFile', 'caFile', 'acmeCaFile', 'secretKeyFile', ...certificates.flat()] as const;

const rules: readonly Rule[] = [
	{
		needs: ['databaseUrl', 'secretKey', 'secretKeyFile'],
		problem({databaseUrl, secretKey, secretKeyFile}) {
			if (secretKey && secretKeyFile) {
				return 'MAILCTL_SECRET_KEY and MAILCTL_SECRET_KEY_FILE are both set: unset one of them';
			}
			if (databaseUrl && !secretKey && !secretKeyFile) {
				return 'MAILCTL_DATABASE_URL needs MAILCTL_SECRET_KEY or MAILCTL_SECRET_KEY_FILE, the same on each node: create one with openssl rand -base64 32';
			}
		},
	},
	{
		needs: ['oidcIssuer', 'oidcClientId'],
		problem({oidcIssuer, oidcClientId}) {
			if ((oidcIssuer === null) !== (oidcClientId === null)) {
				return 'only one of MAILCTL_OIDC_ISSUER and MAILCTL_OIDC_CLIENT_ID is set: set both or neither';
			}
		},
	},
	{
		needs: ['httpsListen', 'acme'],
		problem({httpsListen, acme}) {
			if (httpsListen !== null && !acme) {
				return 'MAILCTL_HTTPS_LISTEN needs certificates: set MAILCTL_ACME=true, or let a proxy serve https (docs/guide/proxy.md)';
			}
		},
	},
	{
		needs: ['httpRedirectListen', 'publicUrl'],
		problem({httpRedirectListen, publicUrl}) {
			if (httpRedirectListen !== null && !publicUrl?.startsWith('https:')) {
				return 'MAILCTL_HTTP_REDIRECT_LISTEN redirects to MAILCTL_PUBLIC_URL, which is not https: set it to the https address at which recipients reach this server';
			}
		},
	},
	{
		needs: ['httpListen', 'httpsListen', 'httpRedirectListen'],
		problem({httpListen, httpsListen, httpRedirectListen}) {
			const listeners = Object.entries({httpListen, httpsListen, httpRedirectListen})
				.filter(([, listen]) => listen?.port)
				.map(([key, listen]) => ({
					name: table[key as 'httpListen'].name,
					address: `${listen?.host}:${listen?.port}`,
				}));
			const [shared] = duplicates(listeners.map(({address}) => address));
			const names = listeners.filter(({address}) => address === shared).map(({name}) => name);
			return shared && `${names.join(' and ')} use the same address, ${shared}: give each its own`;
		},
	},
	{
		needs: ['delivery', 'relays'],
		problem({delivery, relays}) {
			if (delivery === 'relay' && relays.length === 0) {
				return 'MAILCTL_DELIVERY="relay" needs MAILCTL_RELAY_URL: set it to the URL of the relay';
			}
		},
	},
	{
		needs: ['delivery', 'returnPathDomain', 'inboundListen', 'publicUrl', 'httpListen', 'hostname'],
		problem(values) {
			const {returnPathDomain, hostname} = values;
			const linkHost = publicHost(values);
			const [host, name] = returnPathDomain
				? [returnPathDomain, 'MAILCTL_RETURN_PATH_DOMAIN']
				: values.inboundListen
					? [linkHost, 'the host of MAILCTL_PUBLIC_URL']
					: [hostname, 'MAILCTL_HOSTNAME'];
			if (values.delivery === 'mx' && !isMailable(host)) {
				return `MAILCTL_DELIVERY="mx" needs a return-path domain that other servers can reach, but ${name} is ${host}: set MAILCTL_RETURN_PATH_DOMAIN`;
			}
		},
	},
	{
		needs: ['dane', 'dnsServers'],
		problem({dane, dnsServers}) {
			if (dane && dnsServers.length === 0) {
				return 'MAILCTL_DANE="true" needs MAILCTL_DNS_SERVERS: set it to a resolver that validates DNSSEC';
			}
		},
	},
	{
		needs: ['cfbl', 'inboundListen', 'bounceMailbox', 'feedbackAddress'],
		problem({cfbl, inboundListen, bounceMailbox, feedbackAddress}) {
			if (cfbl && !inboundListen && !bounceMailbox && !feedbackAddress) {
				return 'MAILCTL_CFBL="true" requests reports that nobody would read: set MAILCTL_INBOUND_LISTEN or MAILCTL_BOUNCE_MAILBOX, or set MAILCTL_FEEDBACK_ADDRESS to an address that is read';
			}
		},
		daemonOnly: true,
	},
	...files.map((key): Rule => ({needs: [key], problem: values => fileProblem(table[key].name, values[key])})),
	{
		needs: ['acmeCaFile'],
		problem({acmeCaFile: file}) {
			// Node silently trusts no extra CA if the file has no certificate.
			if (file && !fileProblem('', file) && !readSettingFile(file).includes('-----BEGIN CERTIFICATE-----')) {
				return `MAILCTL_ACME_CA_FILE="${file}" contains no certificate: use a PEM file, which contains -----BEGIN CERTIFICATE-----`;
			}
		},
	},
	...certificates.map(
		([cert, key]): Rule => ({needs: [cert, key], problem: values => tlsPairProblem(values, cert, key)}),
	),
	{
		needs: ['acme', 'hostname'],
		problem({acme, hostname}) {
			if (acme && !(hostname.includes('.') && isMailable(hostname))) {
				return `MAILCTL_ACME="true" needs a name that a CA can look up, but MAILCTL_HOSTNAME is ${hostname}: set it to a full name such as mail.example.com`;
			}
		},
	},
	{
		needs: ['submissionListen', 'submissionTlsCert', 'acme'],
		problem({submissionListen, submissionTlsCert, acme}) {
			const open = submissionListen.find(({host, port}) => port === implicitTlsPort || !isLoopback(host));
			if (open && submissionTlsCert === null && !acme) {
				return `MAILCTL_SUBMISSION_LISTEN names ${open.host}:${open.port}, which needs TLS: set MAILCTL_SUBMISSION_TLS_CERT and MAILCTL_SUBMISSION_TLS_KEY, or MAILCTL_ACME=true, or listen on loopback, such as 127.0.0.1:2525`;
			}
		},
	},
	{needs: ['destinationsFile', 'sourcePools', 'relays'], problem: destinationsProblems, daemonOnly: true},
	{needs: ['bounceRulesFile'], problem: bounceRulesProblems, daemonOnly: true},
	{needs: ['blocklistsFile'], problem: blocklistsProblems, daemonOnly: true},
	{needs: ['sourceAddresses', 'sourcePools'], problem: poolProblems},
	{needs: ['sourceAddresses', 'warmUps'], problem: warmUpProblems},
];

/** Returns the problems between settings. A setting that could not be parsed is not in `values`, nor checked. */
export function crossProblems(values: Partial<TableValues>, isBesideDaemon: boolean): string[] {
	return rules.flatMap(rule => {
		if (isBesideDaemon && rule.daemonOnly) {
			return [];
		}
		const isComplete = rule.needs.every(key => Object.hasOwn(values, key));
		return (isComplete && rule.problem(values as TableValues)) || [];
	});
}

/** Returns a warning about a hostname that is valid but probably a mistake, or `null`. */
export function hostnameRemark({delivery, hostname}: Pick<TableValues, 'delivery' | 'hostname'>): string | null {
	return delivery === 'capture' || hostname.includes('.')
		? null
		: `MAILCTL_HOSTNAME is ${hostname}, which other servers cannot look up: set it to a full name such as mail.example.com`;
}

const listUnique = (values: readonly string[]): string => [...new Set(values)].join(', ');

function duplicates(names: readonly string[]): string[] {
	return names.filter((name, index) => names.indexOf(name) !== index);
}

function poolProblems({sourceAddresses, sourcePools}: TableValues): string[] {
	const missing = sourcePools
		.flatMap(({addresses}) => addresses)
		.filter(address => sourceAddresses.every(({ip}) => ip !== address));
	const repeated = duplicates(sourcePools.map(({name}) => name));
	return [
		...(missing.length > 0
			? [
					`MAILCTL_SOURCE_POOLS names ${listUnique(missing)}: add it to MAILCTL_SOURCE_ADDRESSES, spelled the same`,
				]
			: []),
		...(repeated.length > 0
			? [`MAILCTL_SOURCE_POOLS names ${listUnique(repeated)} twice: join the addresses with +`]
			: []),
	];
}

function warmUpProblems({sourceAddresses, warmUps}: TableValues): string[] {
	const addresses = warmUps.map(({address}) => address);
	const missing = addresses.filter(address => sourceAddresses.every(({ip}) => ip !== address));
	const repeated = duplicates(addresses);
	return [
		...(missing.length > 0
			? [`MAILCTL_WARM_UP names ${listUnique(missing)}: add it to MAILCTL_SOURCE_ADDRESSES, spelled the same`]
			: []),
		...(repeated.length > 0 ? [`MAILCTL_WARM_UP names ${listUnique(repeated)} twice: remove one of them`] : []),
	];
}

function fileProblem(name: string, path: string | null): string | undefined {
	try {
		if (path !== null) {
			readSettingFile(path);
		}
	} catch (error) {
		return `${name}="${path}" cannot be read: ${(error as Error).message}: use a file that the daemon’s user can read`;
	}
}

function tlsPairProblem(
	values: TableValues,
	certKey: (typeof certificates)[number][0],
	keyKey: (typeof certificates)[number][1],
): string | undefined {
	const [cert, key] = [values[certKey], values[keyKey]];
	const names = `${table[certKey].name} and ${table[keyKey].name}`;
	if (Boolean(cert) !== Boolean(key)) {
		return `only one of ${names} is set: set both or neither`;
	}
	if (!cert || !key || fileProblem('', cert) || fileProblem('', key)) {
		return undefined;
	}
	try {
		createSecureContext({cert: readSettingFile(cert), key: readSettingFile(key)});
	} catch (error) {
		return `${names} cannot be used for TLS: ${(error as Error).message}`;
	}
}
