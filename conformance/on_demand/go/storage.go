// Calls Google's library for Cloud Storage: storage URL VERB ARGUMENT...
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url, verb string, args []string) error {
	// In this version the variable alone leads only uploads and downloads to the server.
	os.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(url, "http://"))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	client, err := storage.NewClient(ctx, option.WithEndpoint(url+"/storage/v1/"))
	if err != nil {
		return err
	}
	bucket := client.Bucket("barn")
	switch verb {
	case "put":
		return put(ctx, bucket.Object(args[0]), args[1], args[2])
	case "get":
		return get(ctx, bucket.Object(args[0]), args[1], args[2])
	case "list":
		return list(ctx, bucket, args[0])
	case "copy":
		_, err := bucket.Object(args[1]).CopierFrom(bucket.Object(args[0])).Run(ctx)
		return err
	case "compose":
		return compose(ctx, bucket, args[0], args[1:])
	case "delete":
		for _, name := range args {
			if err := bucket.Object(name).Delete(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("no such verb: " + verb)
}

func put(ctx context.Context, object *storage.ObjectHandle, path, chunk string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := object.NewWriter(ctx)
	if writer.ChunkSize, err = strconv.Atoi(chunk); err != nil {
		return err
	}
	if _, err := io.Copy(writer, file); err != nil {
		return err
	}
	return writer.Close()
}

func get(ctx context.Context, object *storage.ObjectHandle, offset, length string) error {
	from, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return err
	}
	count, err := strconv.ParseInt(length, 10, 64)
	if err != nil {
		return err
	}
	reader, err := object.NewRangeReader(ctx, from, count)
	if err != nil {
		return err
	}
	defer reader.Close()
	_, err = io.Copy(os.Stdout, reader)
	return err
}

func list(ctx context.Context, bucket *storage.BucketHandle, prefix string) error {
	objects := bucket.Objects(ctx, &storage.Query{Prefix: prefix})
	for {
		attributes, err := objects.Next()
		if err == iterator.Done {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(attributes.Name)
	}
}

func compose(ctx context.Context, bucket *storage.BucketHandle, target string, names []string) error {
	var sources []*storage.ObjectHandle
	for _, name := range names {
		sources = append(sources, bucket.Object(name))
	}
	_, err := bucket.Object(target).ComposerFrom(sources...).Run(ctx)
	return err
}
