package downstream

import (
	channelz "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// row is what a stream of a method may take, and who answers for it. All streams alike have a client with an identity,
// a place in limits.streams with its share, and limits.first_request. What a first request says of its client, access.verify and
// the access rules judge when it is decoded, in its turn: Router does for streams of discovery, and for load reports.
type row struct {
	bytes   int       // of a message; 0: Config.MaxReceiveSize
	watches int       // of one connection at a time; 0: as many as it may have streams
	brief   bool      // it begins although memory is short: it keeps nothing, and an orchestrator restarts a relay that does not answer
	part    logs.Part // whose panics they are
	refused error     // why no stream of the method begins; nil: it does
}

var (
	errNoRow = status.Error(codes.Unimplemented, "the relay has no row for this method in its table of methods")
	// errFetch is for the methods that stand for REST requests. Clients do not send these over gRPC.
	errFetch = status.Error(codes.Unimplemented, "resources are not fetched one response at a time over gRPC: use the streaming method of this service, or REST-JSON")
)

// What messages of methods beside discovery have at most. A load report takes fifteen times as much when it is decoded.
// A health check is a service's name, which a stream of Watch keeps for as long as it likes, and for next to nothing.
const (
	checkBytes = 1 << 10
	otherBytes = 1 << 20
)

// rows are by method. A copy on the stack of a stream would double that.
var rows = addDiscovery(map[string]*row{
	"/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats": {bytes: otherBytes, part: logs.PartLoadReports},
	"/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats": {bytes: otherBytes, part: logs.PartLoadReports},

	healthpb.Health_Check_FullMethodName: {bytes: checkBytes, brief: true, part: logs.PartClient},
	healthpb.Health_List_FullMethodName:  {bytes: checkBytes, brief: true, part: logs.PartClient},
	healthpb.Health_Watch_FullMethodName: {bytes: checkBytes, watches: 8, part: logs.PartClient},

	reflection.ServerReflection_ServerReflectionInfo_FullMethodName:      {bytes: otherBytes, part: logs.PartClient},
	reflectionalpha.ServerReflection_ServerReflectionInfo_FullMethodName: {bytes: otherBytes, part: logs.PartClient},

	channelz.Channelz_GetTopChannels_FullMethodName:   {bytes: otherBytes, part: logs.PartClient},
	channelz.Channelz_GetServers_FullMethodName:       {bytes: otherBytes, part: logs.PartClient},
	channelz.Channelz_GetServer_FullMethodName:        {bytes: otherBytes, part: logs.PartClient},
	channelz.Channelz_GetServerSockets_FullMethodName: {bytes: otherBytes, part: logs.PartClient},
	channelz.Channelz_GetChannel_FullMethodName:       {bytes: otherBytes, part: logs.PartClient},
	channelz.Channelz_GetSubchannel_FullMethodName:    {bytes: otherBytes, part: logs.PartClient},
	channelz.Channelz_GetSocket_FullMethodName:        {bytes: otherBytes, part: logs.PartClient},
})

// addDiscovery adds the methods of discovery services.
func addDiscovery(to map[string]*row) map[string]*row {
	for i := range services {
		v := &services[i]
		for _, method := range []string{v.State, v.Delta} {
			if method != "" {
				to["/"+v.Name+"/"+method] = &row{part: logs.PartClient}
			}
		}
		if v.Fetch != "" {
			to["/"+v.Name+"/"+v.Fetch] = &row{part: logs.PartClient, refused: errFetch}
		}
	}
	return to
}
