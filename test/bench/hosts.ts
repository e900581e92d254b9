import {createSocket} from 'node:dgram';
import {once} from 'node:events';
import * as dns from 'dns-packet';
import {type AccountedSink, startAccountedSink} from './accounted-sink.ts';

export const manyDomains = {to: 'user{n}@d{d}.example', domains: 40};

/** A sink as eight hosts of many domains, which reply as `replies.ts` says, and the settings that lead mail there. */
export async function startHosts(seed: number): Promise<AccountedSink> {
	const sink = await startAccountedSink({seed});
	const names = createSocket('udp4', (query, {port, address}) => names.send(answerTo(query), port, address));
	names.bind(0, '127.0.0.1').unref();
	await once(names, 'listening');
	const settings = {
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_DNS_SERVERS: `127.0.0.1:${names.address().port}`,
		MAILCTL_MX_PORT: String(sink.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		// Of sites too no wait is longer than the last one.
		MAILCTL_RETRY_SCHEDULE: '1s,2s,4s*',
		MAILCTL_SMTP_TIMEOUTS: 'rcpt=5s',
	};
	return {...sink, settings, stop: () => sink.stop().finally(() => names.close())};
}

function answerTo(message: Buffer): Buffer {
	const {id = 0, questions = []} = dns.decode(message);
	const answers = questions.flatMap(({type, name}): dns.Answer[] => {
		const exchange = `mx${Number(/\d+/.exec(name)?.[0]) % 8}.host.example`;
		return type === 'MX' ? [{type, name, data: {exchange}}] : type === 'A' ? [{type, name, data: '127.0.0.1'}] : [];
	});
	return dns.encode({type: 'response', id, flags: dns.RECURSION_AVAILABLE, questions, answers});
}
