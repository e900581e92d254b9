import test from 'ava';
import {signAws} from '../../src/net/aws-signature.ts';

// The examples of Amazon's test suite for Signature Version 4.
const scope = {
	...{keyId: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'},
	...{region: 'us-east-1', service: 'service'},
};
const now = Date.parse('2015-08-30T12:36:00Z');
const signatureOf = (method: string, path: string) => {
	const {authorization, ...rest} = signAws(
		{method, url: new URL(`https://example.amazonaws.com${path}`)},
		scope,
		now,
	);
	return {...rest, authorization};
};

for (const [name, method, path, signature] of [
	['get-vanilla', 'GET', '/', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'],
	['post-vanilla', 'POST', '/', '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b'],
	[
		'get-vanilla-query-order-key-case',
		'GET',
		'/?Param2=value2&Param1=value1',
		'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
	],
	[
		'get-vanilla-query-order-value',
		'GET',
		'/?Param1=value2&Param1=value1',
		'5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694',
	],
	[
		'get-vanilla-query-unreserved',
		'GET',
		'/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz',
		'9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197',
	],
] as const) {
	test(`Signature Version 4, ${name}`, t => {
		t.deepEqual(signatureOf(method, path), {
			'x-amz-date': '20150830T123600Z',
			authorization: `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=${signature}`,
		});
	});
}

test('Signature Version 4: signs the body and an encoded query', t => {
	const signed = (query: string, body = '') =>
		signAws(
			{
				method: 'POST',
				url: new URL(`https://email.eu-west-1.amazonaws.com/v2/x?${query}`),
				body: Buffer.from(body),
			},
			scope,
			now,
		).authorization;
	t.is(signed('NextToken=a%2Fb%2B%3D%20c%27'), signed('NextToken=a/b%2B=+c%27'));
	t.is(new Set([signed('a=1'), signed('a=2'), signed('a=1', '{}'), signed('a=1', '{ }')]).size, 4);
});
