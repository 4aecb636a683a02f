package downstream

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
)

// answer sends what is held. What cannot be written as JSON is an error that names
// it; the client is told again when a later poll has been held for its time.
func (p *poll) answer() *answer {
	s, typeURL := p.server, p.request.GetTypeUrl()
	encoded, err := p.encode()
	if err != nil {
		s.observer.Unsendable(typeURL)
		s.pollers.fails(p.client, p.held.Digest)
		return refused(err)
	}
	if p.failed != "" {
		s.pollers.fails(p.client, "")
	}
	p.tell(verdict.Word{Kind: verdict.Sent})
	s.observer.Sent(typeURL, len(p.held.Resources), 0, len(encoded.Body), 0)
	if !p.held.Received.IsZero() {
		s.observer.Propagated(typeURL, time.Since(p.held.Received))
	}
	return answered(encoded.Body)
}

// encode writes the response. What is wrong with a resource, or lost of it (VAR-8),
// is logged once for each of its contents.
func (p *poll) encode() (*restjson.Encoded, error) {
	o := &restjson.Outgoing{
		VersionInfo: p.version(), TypeURL: p.request.GetTypeUrl(), Nonce: p.nonce(),
		ControlPlane: identifier(p.server.identifier.Load(), identifiers(nil, p.places)),
		Wrapped:      p.form.Wrapped, Resources: make([]restjson.OutgoingResource, len(p.held.Resources)),
	}
	for _, e := range p.held.Errors {
		o.Errors = append(o.Errors, restjson.OutgoingError{Error: e.Error, Name: e.Name})
	}
	payloads := make([]*payload, len(o.Resources))
	for i, r := range p.held.Resources {
		made := p.server.payloads.of(r.Resource)
		if made.err != nil {
			if made.tell() {
				p.log.Error("a resource cannot be sent to clients that poll", "error", made.err)
			}
			return nil, made.err
		}
		payloads[i] = made
		o.Resources[i] = restjson.OutgoingResource{Resource: r.Resource, Name: r.Name, Transcoded: made.transcoded}
	}
	encoded, err := restjson.EncodeResponse(o)
	if err != nil {
		return nil, err
	}
	if len(encoded.Lossy) == 0 {
		return encoded, nil
	}
	for i, r := range p.held.Resources {
		if slices.Contains(encoded.Lossy, r.Resource.Name) && payloads[i].tell() {
			p.log.Warn("a resource has a field that this build does not know: clients that poll do not get it", "name", clip(r.Resource.Name))
		}
	}
	return encoded, nil
}
