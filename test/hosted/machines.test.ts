import test from 'ava';
import fc from 'fast-check';
import {isMachine, longestAgent, userAgentOf} from '../../src/hosted/machines.ts';

const chrome = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0';
const machines = [
	'Mozilla/5.0',
	`Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/42.0.2311.135 Safari/537.36 Edge/12.246 Mozilla/5.0`,
	'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)',
	'YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html',
	'Barracuda Sentinel (EE)',
	'Mimecast-Link-Protect',
	`${chrome} Safari/537.36 Proofpoint URL Defense`,
	'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
	'Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)',
	'Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com',
	'facebookexternalhit/1.1',
	'WhatsApp/2.23.20.0 A',
	'TelegramBot (like TwitterBot)',
	'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36',
	'python-requests/2.32.3',
	'curl/8.5.0',
	'Go-http-client/2.0',
	'',
	undefined,
];
const people = [
	`${chrome} Safari/537.36`,
	`${chrome} Safari/537.36 Edg/140.0.0.0`,
	'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148',
	'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)',
	'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.2.0',
	'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; Win64; x64; Trident/7.0; Microsoft Outlook 16.0.5197; ms-office; MSOffice 16)',
	'Mozilla/5.0 (Linux; Android 14; CUBOT NOTE 50) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Mobile Safari/537.36',
	'Mozilla/5.0 (Linux; Android 13; SM-A536B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0 Mobile',
];
for (const agent of machines) {
	test(`a machine: ${agent}`, t => {
		t.true(isMachine({'user-agent': agent}));
	});
}
for (const agent of people) {
	test(`no known machine: ${agent}`, t => {
		t.false(isMachine({'user-agent': agent}));
	});
}

test('what is fetched ahead says so', t => {
	const [agent] = people;
	t.true(isMachine({'user-agent': agent, 'sec-purpose': 'prefetch;prerender'}));
	t.true(isMachine({'user-agent': agent, purpose: 'prefetch'}));
	t.true(isMachine({'user-agent': agent, 'x-moz': 'prefetch'}));
	t.false(isMachine({'user-agent': agent, purpose: 'navigate'}));
});

test('any name is judged, and kept cut', t => {
	t.is(userAgentOf({'user-agent': 'a'.repeat(16_000)}), 'a'.repeat(longestAgent));
	t.is(userAgentOf({}), null);
	fc.assert(fc.property(fc.string({maxLength: 400}), agent => typeof isMachine({'user-agent': agent}) === 'boolean'));
});
