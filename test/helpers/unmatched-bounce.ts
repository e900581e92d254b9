/** A bounce of a mail that was never ours. */
export function unmatchedBounce(recipient: string, said = '550 5.1.1 no such user'): string {
	return `From: Mail Delivery System <MAILER-DAEMON@mx.dest.example>
To: someone@shop.example
Subject: Undelivered Mail Returned to Sender
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain

It could not be delivered.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.dest.example

Final-Recipient: rfc822; ${recipient}
Action: failed
Status: 5.1.1
Remote-MTA: dns; mx.dest.example
Diagnostic-Code: smtp; ${said}

--b--
`.replaceAll('\n', '\r\n');
}
